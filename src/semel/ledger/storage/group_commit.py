"""Group commit, the synchronous half: run many logical transactions in one durable commit.

One `BEGIN IMMEDIATE` ... `COMMIT` holds a whole batch. Each job runs inside a savepoint, so a failing job undoes only
its own changes. `COMMIT` returns when the write-ahead log is on disk (`synchronous=FULL`); no job is answered before
that. If the disk fails, every job of the batch fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

import apsw

from semel.ledger.storage.mark import MarkFile
from semel.ledger.storage.refusals import failure
from semel.ledger.storage.sql import STORAGE_FAULTS, Queries, Tx
from semel.ledger.storage.wal import Wal
from semel.ledger.storage.work_item import Job

_NOT_A_RESULT = (CoroutineType, GeneratorType, AsyncGeneratorType)


def perform(job: Job, tx: Tx) -> None:
    """Run one job's function. Its own exception becomes the job's error; a storage fault is raised, as the whole batch
    is lost.
    """
    try:
        job.result = job.fn(tx, *job.args, **job.kwargs)
        job.afterwards = tx.end()
        if isinstance(job.result, _NOT_A_RESULT):
            _discard(job)
    except STORAGE_FAULTS:
        raise
    except BaseException as error:
        tx.end()
        job.fail(error)
    if tx.fault is not None:  # the body swallowed it
        raise tx.fault


def _discard(job: Job) -> None:
    if not isinstance(job.result, AsyncGeneratorType):
        job.result.close()
    raise TypeError(f"{job!r} returned a {type(job.result).__name__}: a transaction is a plain function")


class Committer:
    """Owns the writing connection. Not thread-safe: one thread, or one caller at a time, uses it."""

    def __init__(self, db: apsw.Connection, path: Path, named: Queries, clock: Callable[[], int]) -> None:
        self._db = db
        self._cursor = db.cursor()
        self._path = path
        self._named = named
        self._clock = clock
        self._wal = Wal(db)
        self._mark: MarkFile | None = None
        self._changes = 0  # changes made by the connection before the current commit
        self.commits = 0
        self.transactions = 0
        self.failures = 0
        self.last_failure: str | None = None

    def __repr__(self) -> str:
        return f"<Committer {self.transactions} transactions in {self.commits} commits, {self.failures} failed>"

    def commit(self, jobs: Sequence[Job]) -> None:
        """Run the jobs. Afterwards each has a durable result or an error. Raises nothing."""
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
            self._changes = self._db.total_changes()
            if len(jobs) == 1:
                self._run_alone(jobs[0])
            else:
                for job in jobs:
                    self._run_guarded(job)
                self._finish()
        except BaseException as fault:
            self._fail(jobs, fault)
            return
        self.commits += 1
        self.transactions += len(jobs)

    def look(self, job: Job) -> None:
        """Run a read-only job and roll back: for a store without reader threads."""
        self._cursor.execute("BEGIN")
        try:
            perform(job, Tx(self._cursor, self._named, self._clock()))
        except BaseException as fault:
            job.fail(failure(fault, self._path, self._db.system_errno))
        finally:
            self._undo()

    def _run_alone(self, job: Job) -> None:
        # A batch of one needs no savepoint: the transaction is its own.
        perform(job, Tx(self._cursor, self._named, self._clock()))
        if job.error is None:
            self._finish()
        else:
            self._undo()

    def _run_guarded(self, job: Job) -> None:
        run = self._cursor.execute
        run("SAVEPOINT job")
        perform(job, Tx(self._cursor, self._named, self._clock()))
        if job.error is not None:
            run("ROLLBACK TO job")
        run("RELEASE job")

    def _undo(self) -> None:
        if self._db.in_transaction:
            try:
                self._cursor.execute("ROLLBACK")
            except apsw.Error:
                pass  # the disk is failing: the next batch finds the transaction open, fails too and rolls back again

    def _fail(self, jobs: Sequence[Job], fault: BaseException) -> None:
        errno = self._db.system_errno
        self._undo()
        self.failures += 1
        self.last_failure = str(failure(fault, self._path, errno))
        for job in jobs:
            job.fail(failure(fault, self._path, errno))

    def keep_mark(self, mark: MarkFile) -> None:
        """Record each commit in this mark file from now on."""
        self._mark = mark

    def _finish(self) -> None:
        # A commit that changes nothing costs no sync of the disk: it is not counted.
        counts = self._mark is not None and self._db.total_changes() > self._changes
        row: Any = self._cursor.execute(self._named["ledger_count"].sql).fetchall()[0] if counts else None
        try:
            self._cursor.execute("COMMIT")
        except apsw.Error:
            self._undo()
            self._overwrite()
            raise
        if self._mark is not None and row is not None:
            self._mark.note(*row)

    def _overwrite(self) -> None:
        # If the sync failed, the log may hold the whole batch, commit mark and all, and a crash before the
        # next commit would bring back what its callers are told was not accepted. So commit nothing over it.
        try:
            version = self._cursor.execute("PRAGMA user_version").fetchall()[0][0]
            self._cursor.execute("BEGIN IMMEDIATE")
            self._cursor.execute(f"PRAGMA user_version = {version}")
            self._cursor.execute("COMMIT")
        except apsw.Error:
            self._undo()  # the disk is still failing: the next successful commit overwrites it

    @property
    def backlog(self) -> int:
        """Pages (4 KiB) of the write-ahead log that are not yet in the database file."""
        return self._wal.backlog

    def checkpoint(self) -> None:
        """Move the log into the database file. A failure is only recorded: the log still holds everything."""
        try:
            self._wal.checkpoint()
        except apsw.Error as fault:
            self.last_failure = str(failure(fault, self._path, self._db.system_errno))
            return
        if self._mark is not None and self._wal.backlog == 0:
            self._mark.note_whole()

    def state(self) -> dict[str, Any]:
        """Numbers for `semel doctor`."""
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
