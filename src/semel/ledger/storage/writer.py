"""Group commit, the writer thread: the next batch is whatever was queued while the previous one synced.

A single client never waits for a batch to fill; 64 clients share one disk sync. Measured: `python -m bench.ledger`;
docs/decisions/ledger-storage.md.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from queue import Empty, SimpleQueue

from semel.ledger.storage.errors import LedgerClosed
from semel.ledger.storage.group_commit import Committer
from semel.ledger.storage.work_item import Job, deliver

BATCH = 512  # logical transactions in one commit, at most
IDLE = 0.2  # seconds without work after which the log is moved into the database file
MUCH = 4096  # pages (16 MiB) in the log that make the writer move it even while busy

_log = logging.getLogger("semel.ledger")


class Writer:
    """The only thread that writes. A submitted job is answered after its commit."""

    def __init__(self, committer: Committer, path: Path) -> None:
        self._committer = committer
        self._path = path
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._open = True
        self._thread = threading.Thread(target=self._serve, name="ledger-writer", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        door = "open" if self._open else "closed"
        return f"<Writer {door}, {self._queue.qsize()} waiting, {self._committer!r}>"

    def submit(self, job: Job) -> None:
        """Queue a job. It runs even if its caller stops waiting."""
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"{job!r} was asked for inside a transaction: it would wait for itself")
        with self._gate:
            if not self._open:
                raise LedgerClosed(path=self._path)
            self._queue.put(job)

    def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        with self._gate:
            if self._open:
                self._open = False
                self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        going = True
        while going:
            jobs, going = self._take()
            failed = self._committer.failures
            if jobs:
                self._committer.commit(jobs)
                deliver(jobs)
            if self._committer.failures != failed:
                _log.error("%s", self._committer.last_failure)
            if self._committer.backlog and (not jobs or self._committer.backlog >= MUCH):
                self._committer.checkpoint()
            del jobs  # results must not live on while this thread waits

    def _take(self) -> tuple[list[Job], bool]:
        """The next batch and whether to go on after it. The batch is empty if nothing came in time and the log has a
        backlog.
        """
        try:
            first = self._queue.get(timeout=IDLE if self._committer.backlog else None)
        except Empty:
            return [], True
        if first is None:
            return [], False
        jobs = [first]
        for _ in range(min(self._queue.qsize(), BATCH - 1)):
            job = self._queue.get_nowait()
            if job is None:
                return jobs, False
            jobs.append(job)
        return jobs, True
