"""The threads of an open ledger: one writer, and readers with read-only connections.

The writer's next batch consists of the jobs that were queued while the previous batch was synced. So a single client
never waits for a batch to fill, and 64 clients share one disk sync. Measured: `python -m bench.ledger`;
docs/decisions/ledger-storage.md. A read sees one snapshot that includes every earlier commit.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

import apsw

from semel.ledger.sqlite.errors import to_ledger_error
from semel.ledger.sqlite.group_commit import Committer, run_job
from semel.ledger.sqlite.tx import SqliteTx
from semel.ledger.storage.errors import LedgerClosed
from semel.ledger.storage.sql import Queries
from semel.ledger.storage.work import WorkItem, deliver_results

MAX_BATCH_ITEMS = 512  # logical transactions in one commit, at most
IDLE_BEFORE_CHECKPOINT_S = 0.2  # seconds without work after which the log is moved into the database file
MAX_BACKLOG_PAGES = 4096  # pages (16 MiB) in the log that make the writer move it even while busy

_log = logging.getLogger("semel.ledger")


class _JobThreads:
    """Threads that take jobs (`WorkItem`) from one queue. A `None` in the queue ends one of the threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: SimpleQueue[WorkItem | None] = SimpleQueue()
        self._submit_lock = threading.Lock()
        self._is_open = True
        self._threads: list[threading.Thread] = []

    def submit(self, job: WorkItem) -> None:
        """Queue a job. The job runs even if its caller stops waiting. Raises LedgerClosed."""
        if threading.current_thread() in self._threads:
            raise RuntimeError(f"{job!r} was asked for inside a transaction: it would wait for itself")
        with self._submit_lock:
            if not self._is_open:
                raise LedgerClosed(path=self._path)
            self._queue.put(job)

    def close(self) -> None:
        """Finish all submitted jobs, then end the threads."""
        with self._submit_lock:
            if self._is_open:
                self._is_open = False
                for _ in self._threads:
                    self._queue.put(None)
        for thread in self._threads:
            thread.join()


class Writer(_JobThreads):
    """The only thread that writes. It answers a job after the job's commit."""

    def __init__(self, committer: Committer, path: Path) -> None:
        super().__init__(path)
        self._committer = committer
        self._threads = [threading.Thread(target=self._serve, name="ledger-writer", daemon=True)]
        self._threads[0].start()

    def __repr__(self) -> str:
        state = "open" if self._is_open else "closed"
        return f"<Writer {state}, {self._queue.qsize()} waiting, {self._committer!r}>"

    def _serve(self) -> None:
        is_running = True
        while is_running:
            jobs, is_running = self._take_batch()
            failures_before = self._committer.failures
            if jobs:
                self._committer.commit(jobs)
                deliver_results(jobs)
            if self._committer.failures != failures_before:
                _log.error("%s", self._committer.last_failure)
            if self._committer.backlog and (not jobs or self._committer.backlog >= MAX_BACKLOG_PAGES):
                self._committer.checkpoint()
            del jobs  # free the results before this thread waits

    def _take_batch(self) -> tuple[list[WorkItem], bool]:
        """Return the next batch, and whether the thread continues after it.

        The batch is empty if the thread ends now, or if the log has a backlog and no job came in time: then a
        checkpoint is due.
        """
        try:
            first = self._queue.get(timeout=IDLE_BEFORE_CHECKPOINT_S if self._committer.backlog else None)
        except Empty:
            return [], True
        if first is None:
            return [], False
        jobs = [first]
        for _ in range(min(self._queue.qsize(), MAX_BATCH_ITEMS - 1)):
            job = self._queue.get_nowait()
            if job is None:
                return jobs, False
            jobs.append(job)
        return jobs, True


class Readers(_JobThreads):
    """A small pool of threads that read. Any thread that is free takes the next job."""

    def __init__(
        self, connections: Sequence[apsw.Connection], path: Path, statements: Queries, clock: Callable[[], int]
    ) -> None:
        super().__init__(path)
        self._statements = statements
        self._clock = clock
        self._threads = [
            threading.Thread(target=self._serve, args=(db,), name=f"ledger-reader-{number}", daemon=True)
            for number, db in enumerate(connections)
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, db: apsw.Connection) -> None:
        cursor = db.cursor()
        while (job := self._queue.get()) is not None:
            try:
                cursor.execute("BEGIN")
                run_job(job, SqliteTx(cursor, self._statements, self._clock()))
                if job.callbacks:
                    raise TypeError(f"{job!r} only reads: nothing can follow its commit")
            except BaseException as error:
                job.fail(to_ledger_error(error, self._path, db.system_errno))
            with contextlib.suppress(apsw.Error):
                cursor.execute("ROLLBACK")
            deliver_results((job,))
            del job  # free the result before this thread waits
        db.close()
