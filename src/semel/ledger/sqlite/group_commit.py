"""Group commit: run many logical transactions in one durable commit, and hand each caller its result.

A *job* is one queued logical transaction (`WorkItem`). One `BEGIN IMMEDIATE` ... `COMMIT` holds a whole batch of jobs.
Each job runs inside a savepoint, so a failing job undoes only its own changes. `COMMIT` returns when the write-ahead
log is on disk (`synchronous=FULL`); no job is answered before that. If the disk fails, every job of the batch fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw

from semel.ledger.sqlite.errors import to_ledger_error
from semel.ledger.sqlite.mark_file import MarkFile
from semel.ledger.sqlite.tx import STORAGE_ERRORS, SqliteTx
from semel.ledger.storage.sql import Queries
from semel.ledger.storage.work import WorkItem, refuse_async_result


def run_job(job: WorkItem, tx: SqliteTx) -> None:
    """Run a job's function. Store its result or its exception in the job.

    Raise a storage fault instead of storing it, because such a fault makes the whole batch fail.
    """
    try:
        job.result = job.fn(tx, *job.args, **job.kwargs)
        job.callbacks = tx.end()
        refuse_async_result(job)
    except STORAGE_ERRORS:
        raise
    except BaseException as error:
        tx.end()
        job.fail(error)
    if tx.storage_error is not None:  # the function swallowed it
        raise tx.storage_error


class WriteAheadLog:
    """The write-ahead log: track its size, and run checkpoints in place of SQLite's automatic ones.

    An automatic checkpoint makes one commit in eighty slow, so the writer runs checkpoints when no job waits.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self.pages = 0
        self._moved_pages = 0  # how many of these pages are already in the database file
        db.set_wal_hook(self._record_growth)

    @property
    def backlog(self) -> int:
        """The number of pages (4 KiB each) in the log that are not yet in the database file."""
        return self.pages - self._moved_pages

    def checkpoint(self) -> None:
        """Copy the log into the database file as far as readers allow, without waiting for them (PASSIVE).

        The log file is kept and overwritten, which is 2.7 times cheaper than appending to a new one. If this raises
        apsw.Error, nothing is lost: the log still holds every change, and a later checkpoint copies it.
        """
        try:
            self.pages, self._moved_pages = self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            self._moved_pages = self.pages  # do not retry at once: the next commit counts the backlog anew
            raise

    def _record_growth(self, db: apsw.Connection, name: str, pages: int) -> int:
        if pages < self._moved_pages:
            self._moved_pages = 0  # SQLite restarted the log from its beginning
        self.pages = pages
        return apsw.SQLITE_OK


class Committer:
    """The owner of the writing connection. It is not thread-safe: one thread, or one caller at a time, may use it."""

    def __init__(self, db: apsw.Connection, path: Path, statements: Queries, clock: Callable[[], int]) -> None:
        self._db = db
        self._cursor = db.cursor()
        self._path = path
        self._statements = statements
        self._clock = clock
        self._wal = WriteAheadLog(db)
        self._mark: MarkFile | None = None
        self._changes_before = 0  # changes made by the connection before the current commit
        self.commits = 0
        self.transactions = 0
        self.failures = 0
        self.last_failure: str | None = None

    def __repr__(self) -> str:
        return f"<Committer {self.transactions} transactions in {self.commits} commits, {self.failures} failed>"

    def commit(self, jobs: Sequence[WorkItem]) -> None:
        """Run the jobs in one commit. Afterwards, each job has a durable result or an error. Never raises."""
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
            self._changes_before = self._db.total_changes()
            if len(jobs) == 1:
                self._run_single(jobs[0])
            else:
                for job in jobs:
                    self._run_in_savepoint(job)
                self._commit_batch()
        except BaseException as error:
            self._fail_batch(jobs, error)
            return
        self.commits += 1
        self.transactions += len(jobs)

    def read(self, job: WorkItem) -> None:
        """Run a read-only job on the writing connection, and roll back. A store without reader threads uses this."""
        self._cursor.execute("BEGIN")
        try:
            run_job(job, SqliteTx(self._cursor, self._statements, self._clock()))
        except BaseException as error:
            job.fail(to_ledger_error(error, self._path, self._db.system_errno))
        finally:
            self._roll_back()

    def _run_single(self, job: WorkItem) -> None:
        # A batch of one needs no savepoint: the job has the transaction to itself.
        run_job(job, SqliteTx(self._cursor, self._statements, self._clock()))
        if job.error is None:
            self._commit_batch()
        else:
            self._roll_back()

    def _run_in_savepoint(self, job: WorkItem) -> None:
        run = self._cursor.execute
        run("SAVEPOINT job")
        run_job(job, SqliteTx(self._cursor, self._statements, self._clock()))
        if job.error is not None:
            run("ROLLBACK TO job")
        run("RELEASE job")

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            try:
                self._cursor.execute("ROLLBACK")
            except apsw.Error:
                pass  # the disk is failing: the next batch finds the transaction open, fails too and rolls back again

    def _fail_batch(self, jobs: Sequence[WorkItem], error: BaseException) -> None:
        errno = self._db.system_errno
        self._roll_back()
        self.failures += 1
        self.last_failure = str(to_ledger_error(error, self._path, errno))
        for job in jobs:
            job.fail(to_ledger_error(error, self._path, errno))

    def keep_mark(self, mark: MarkFile) -> None:
        """Record each later commit in this mark file."""
        self._mark = mark

    def _commit_batch(self) -> None:
        # A commit that changes nothing costs no sync of the disk: it is not counted.
        has_changes = self._mark is not None and self._db.total_changes() > self._changes_before
        row: Any = self._cursor.execute(self._statements["ledger_count"].sql).fetchall()[0] if has_changes else None
        try:
            self._cursor.execute("COMMIT")
        except apsw.Error:
            self._roll_back()
            self._overwrite_failed_log()
            raise
        if self._mark is not None and row is not None:
            self._mark.record_commit(*row)

    def _overwrite_failed_log(self) -> None:
        # If the sync failed, the log may hold the whole batch, complete with its commit record. A crash would then
        # bring back what the callers are told was not accepted. So overwrite the batch with an empty commit.
        try:
            version = self._cursor.execute("PRAGMA user_version").fetchall()[0][0]
            self._cursor.execute("BEGIN IMMEDIATE")
            self._cursor.execute(f"PRAGMA user_version = {version}")
            self._cursor.execute("COMMIT")
        except apsw.Error:
            self._roll_back()  # the disk is still failing: the next successful commit overwrites it

    @property
    def backlog(self) -> int:
        """The number of pages (4 KiB each) in the write-ahead log that are not yet in the database file."""
        return self._wal.backlog

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the database file.

        An error is recorded as `last_failure` and not raised, because the log still holds every change.
        """
        try:
            self._wal.checkpoint()
        except apsw.Error as error:
            self.last_failure = str(to_ledger_error(error, self._path, self._db.system_errno))
            return
        if self._mark is not None and self._wal.backlog == 0:
            self._mark.record_checkpoint()

    def statistics(self) -> dict[str, Any]:
        """Return the numbers of commits and failures, the last failure, and the log's size in pages of 4 KiB."""
        return {
            "commits": self.commits,
            "transactions": self.transactions,
            "failures": self.failures,
            "last_failure": self.last_failure,
            "wal_pages": self._wal.pages,
            "backlog_pages": self._wal.backlog,
        }

    def close(self) -> None:
        if self._mark is not None:
            self._mark.close()
        self._db.close()
