"""The store of the PostgreSQL engine: worker threads, a connection each.

    store = PostgresStore.open("postgresql://semel@db/semel")

A job that writes goes to the worker that its lane names (`Locks.lane`). So the writes of one session run in the order
in which they were queued.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any, Self

from semel.ledger.postgres.delivery_order import DeliveryOrder
from semel.ledger.postgres.errors import explain_not_opened, to_ledger_error
from semel.ledger.postgres.holder import Holder
from semel.ledger.postgres.locks import find_locks
from semel.ledger.postgres.members import Member
from semel.ledger.postgres.migrate import migrate_to_newest, read_version, refuse_other_version
from semel.ledger.postgres.moved import refuse_moved
from semel.ledger.postgres.server import measure_database, refuse_encoding, refuse_pooler, refuse_unfit_server
from semel.ledger.postgres.server_clock import ServerClock
from semel.ledger.postgres.wire import Connection, ConnectionLost
from semel.ledger.postgres.worker import COUNTED, Worker
from semel.ledger.storage.errors import LedgerClosed, LedgerReadOnly
from semel.ledger.storage.location import DatabaseUrl
from semel.ledger.storage.migrations import Migration, Upgrade, list_migrations
from semel.ledger.storage.store import LedgerSize, LedgerStore, do_nothing, now_ms
from semel.ledger.storage.work import WorkItem

WRITERS = 3  # with fewer, more jobs share a transaction; with more, more waits for a distant server overlap
READERS = 2
MAX_TOGETHER = 64  # jobs that share a transaction


class PostgresStore(LedgerStore):
    """An open ledger in a PostgreSQL database. Create it with `open` or `open_sync`."""

    def __init__(
        self,
        url: str,
        clock: Callable[[], int],
        *,
        threads: bool,
        readonly: bool = False,
        place: Holder | Member | None = None,
        workers: Sequence[int] = (0,) * WRITERS,
    ) -> None:
        self._url = url
        self._name = str(DatabaseUrl(url))
        self._place = place
        self._clock = clock
        self._worker: Worker | None = None if threads else Worker(url, self._name, clock)
        self._writers: list[_WorkerThread] = []
        self._readers: list[_WorkerThread] = []
        self._closed = False
        if threads:
            order, reads = DeliveryOrder(), SimpleQueue[WorkItem | None]()
            hold_again = None if place is None else place.hold_again
            settings = {} if place is None else {"application_name": place.application}
            for n, id in enumerate(() if readonly else workers):
                worker = Worker(url, self._name, clock, order, hold_again, id, settings)
                self._writers.append(_WorkerThread(f"ledger-writer-{n}", worker))
            for n in range(READERS):
                reader = Worker(url, self._name, clock, settings=settings)
                self._readers.append(_WorkerThread(f"ledger-reader-{n}", reader, reads))

    def __repr__(self) -> str:
        return f"<PostgresStore {self._name} {'closed' if self._closed else self.statistics()}>"

    @classmethod
    def open(
        cls,
        url: str,
        *,
        exclusive: bool = True,
        clock: Callable[[], int] | None = None,
        announce: Callable[[Upgrade], object] | None = None,
        take_back: bool = False,
        member: Member | None = None,
        threads: bool = True,
        migrations: Sequence[Migration] | None = None,
    ) -> Self:
        """Check the server, create or migrate the ledger, and start the threads. This blocks.

        `url`: a connection URI (PostgreSQL documentation, "Connection URIs"). `exclusive`: be the database's only
        gateway; one that was cut off from the server before cannot write any more. `clock`: None takes the server's.
        `announce` is called before an older ledger is migrated. `take_back`: use a ledger again that was marked as
        moved; mark it as restored then. `member`: this gateway's place in a cluster; if it has not taken over, the
        ledger is neither created nor migrated, and other gateways go on. Tests pass `migrations`. Raises LedgerMoved
        and the errors of `semel.ledger.postgres.errors`.
        """
        name, migrations = str(DatabaseUrl(url)), migrations or list_migrations()
        with connecting(url) as connection:
            refuse_pooler(connection, url, name)  # before it is given a lock that it would keep
            place = member or (Holder(url, name) if exclusive else None)
            try:
                refuse_unfit_server(connection, name)
                if not take_back:
                    refuse_moved(connection, name)
                clock = ServerClock(connection) if clock is None else clock
                if member is not None and 0 < read_version(connection, name) < migrations[-1].version:
                    member.dismiss_others()
                migrate_to_newest(connection, migrations, name, clock(), announce)
                workers = (0,) * WRITERS if place is None else place.add_workers(WRITERS)
                return cls(url, clock, threads=threads, place=place, workers=workers)
            except BaseException:
                if place is not None:
                    place.release()
                raise

    @classmethod
    def open_sync(
        cls, url: str, *, clock: Callable[[], int] = now_ms, migrations: Sequence[Migration] | None = None
    ) -> Self:
        """Open the ledger without threads: `write_sync` and `read_sync` run on the caller's thread."""
        return cls.open(url, clock=clock, migrations=migrations, threads=False, exclusive=False)

    @classmethod
    def open_readonly(cls, url: str, *, clock: Callable[[], int] = now_ms) -> Self:
        """Open the ledger for reading, with threads, whether or not a gateway runs. This changes nothing.

        Raises DatabaseEmpty, DatabaseOlder, LedgerNewer and the errors of `open`.
        """
        name = str(DatabaseUrl(url))
        with connecting(url) as connection:
            refuse_encoding(connection, name)
            refuse_other_version(connection, name)
        return cls(url, clock, threads=True, readonly=True)

    @property
    def file(self) -> None:
        return None

    def now(self) -> int:
        return self._clock()

    def measure(self) -> LedgerSize:
        return measure_database(self._url)

    @property
    def holds_files(self) -> bool:
        return True

    @property
    def has_threads(self) -> bool:
        return self._worker is None

    @property
    def was_closed(self) -> bool:
        return self._place is None or self._place.was_released

    async def wait_for_writer(self) -> None:
        loop = asyncio.get_running_loop()
        jobs = [WorkItem(do_nothing, (), {}, loop) for _ in self._writers]
        for thread, job in zip(self._writers, jobs, strict=True):
            thread.queue.put(job)
        await asyncio.gather(*(job.future for job in jobs if job.future is not None), return_exceptions=True)

    def statistics(self) -> dict[str, Any]:
        workers = [self._worker] if self._worker is not None else [thread.worker for thread in self._writers]
        return {
            "path": self._name,
            **{name: sum(worker.counts[name] for worker in workers) for name in COUNTED},
            "last_failure": next((worker.last_failure for worker in workers if worker.last_failure), None),
        }

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        threads = (*self._writers, *self._readers)
        for thread in threads:
            thread.stop()
        for thread in threads:
            thread.join()
        if self._worker is not None:
            self._worker.close()
        if self._place is not None:
            self._place.release()

    def _queue_write(self, job: WorkItem) -> None:
        self._check_job(job)
        if not self._writers:
            raise LedgerReadOnly(path=self._name, why="it was opened for reading")
        lane = find_locks(job.fn, job.args).lane
        self._writers[hash(lane) % len(self._writers)].queue.put(job)

    def _queue_read(self, job: WorkItem) -> None:
        self._check_job(job)
        self._readers[0].queue.put(job)

    def _write_here(self, job: WorkItem) -> None:
        self._check_job(job)
        assert self._worker is not None
        self._worker.write((job,))

    def _read_here(self, job: WorkItem) -> None:
        self._check_job(job)
        assert self._worker is not None
        self._worker.read((job,))

    def _check_job(self, job: WorkItem) -> None:
        if any(thread.is_current for thread in (*self._writers, *self._readers)):
            raise RuntimeError(f"{job!r} was asked for inside a transaction: it would wait for itself")
        if self._closed:
            raise LedgerClosed(path=self._name)


class _WorkerThread:
    """A worker and the thread that runs it. A `None` in the queue ends the thread.

    `reads`: the queue of jobs that read, which several threads share; without it, the worker writes.
    """

    def __init__(self, name: str, worker: Worker, reads: SimpleQueue[WorkItem | None] | None = None) -> None:
        self.queue: SimpleQueue[WorkItem | None] = SimpleQueue() if reads is None else reads
        self.worker = worker
        self._perform = worker.write if reads is None else worker.read
        self._most = MAX_TOGETHER if reads is None else 1
        self._is_stopped = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Let the thread end once its jobs are done."""
        self.queue.put(None)
        self.worker.give_up()

    def join(self) -> None:
        self._thread.join()

    def _serve(self) -> None:
        while jobs := self._take():
            self._perform(jobs)
            del jobs  # their results must not live on while this thread waits
        self.worker.close()

    def _take(self) -> list[WorkItem]:
        """Wait for a job, and return it with those that wait behind it; none once the thread is to end."""
        jobs: list[WorkItem] = []
        while not self._is_stopped and (not jobs or (len(jobs) < self._most and not self.queue.empty())):
            job = self.queue.get()
            if job is None:
                self._is_stopped = True
            else:
                jobs.append(job)
        return jobs


@contextlib.contextmanager
def connecting(url: str) -> Iterator[Connection]:
    """Connect while the ledger is opened. Errors of server and network are raised as LedgerError."""
    name = str(DatabaseUrl(url))
    try:
        connection = Connection(url)
    except ConnectionLost as error:
        raise explain_not_opened(error, name) from error
    try:
        yield connection
    except Exception as error:
        ledger_error = to_ledger_error(error, name)
        if ledger_error is error:
            raise
        raise ledger_error from error
    finally:
        connection.close()
