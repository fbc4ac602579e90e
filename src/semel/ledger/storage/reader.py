"""Reader threads with read-only connections. Each job sees one snapshot that includes every earlier commit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue

import apsw

from semel.ledger.storage.errors import LedgerClosed
from semel.ledger.storage.group_commit import perform
from semel.ledger.storage.refusals import failure
from semel.ledger.storage.sql import Queries, Tx
from semel.ledger.storage.work_item import Job, deliver


class Readers:
    """A small pool: whichever thread is free takes the next job."""

    def __init__(
        self,
        connections: Sequence[apsw.Connection],
        path: Path,
        named: Queries,
        clock: Callable[[], int],
    ) -> None:
        self._path = path
        self._named = named
        self._clock = clock
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._open = True
        self._threads = [
            threading.Thread(target=self._serve, args=(db,), name=f"ledger-reader-{n}", daemon=True)
            for n, db in enumerate(connections)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        with self._gate:
            if not self._open:
                raise LedgerClosed(path=self._path)
            self._queue.put(job)

    def close(self) -> None:
        """Finish the queued jobs, then end the threads and close their connections."""
        with self._gate:
            if self._open:
                self._open = False
                for _ in self._threads:
                    self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self, db: apsw.Connection) -> None:
        cursor = db.cursor()
        while (job := self._queue.get()) is not None:
            try:
                cursor.execute("BEGIN")
                perform(job, Tx(cursor, self._named, self._clock()))
                if job.afterwards:
                    raise TypeError(f"{job!r} only reads: nothing can follow its commit")
            except BaseException as fault:
                job.fail(failure(fault, self._path, db.system_errno))
            with contextlib.suppress(apsw.Error):
                cursor.execute("ROLLBACK")
            deliver((job,))
            del job  # its result must not live on while this thread waits
        db.close()
