"""A worker: a connection that runs jobs, and knows what became of each.

Jobs that wait at the same moment share a transaction: its locks, its round trips and its COMMIT are paid once. A job
that fails before it has written anything leaves the others alone. If one fails later, or meets another transaction, all
is undone, and each of them runs again in a transaction of its own, so that it fails alone.

A transaction that meets another one is undone by the server (deadlock, serialization failure, a unique key taken at the
same time) and run again from its beginning: transaction functions change nothing but the ledger. One that was to write
to a session which it had not locked is run again, too, and then locks that session with the others.

If the connection ends while a COMMIT is under way, nobody can tell from the answer whether it happened. So every
transaction that writes stores its number in the worker's own row of the table `mark`. The next connection reads that
row `FOR UPDATE`, which waits for a server process that still commits: if it holds the number, the transaction happened;
if not, it did not, and runs again. (`pg_xact_status` could not tell: after a failover, the same transaction id can be
another transaction's.) While the server cannot be reached, such a job waits: it must not be reported as refused.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from semel.ledger.postgres import locks
from semel.ledger.postgres.delivery_order import DeliveryOrder
from semel.ledger.postgres.errors import RETRIED_STATES, DatabaseBusy, DatabaseTakenOver, to_ledger_error
from semel.ledger.postgres.held_sessions import HeldSessions, SessionNotHeld
from semel.ledger.postgres.server_clock import ServerClock
from semel.ledger.postgres.statements import own_statements
from semel.ledger.postgres.tx import NotShared, PostgresTx
from semel.ledger.postgres.wire import Connection, ConnectionLost, ServerError
from semel.ledger.storage.work import WorkItem, deliver_results, refuse_async_result

MAX_ATTEMPTS = 20  # times that a transaction is run before others count as stuck
MAX_KEY_ATTEMPTS = 5  # times that a key may be taken: by then it has seen the rows that hold its keys
KEY_IS_TAKEN = "23505"
RECONNECT_S = 5.0  # seconds for which a job waits for the server before it is refused
RECONNECT_DELAY_S = 0.1
FOREIGN_KEY_VIOLATION = "23503"
COUNTED = ("commits", "transactions", "failures", "retries", "lost_connections")
"""Each transaction is a job's. Those that share one of the server are one commit."""


class Worker:
    """A connection and its row. It belongs to one thread; the store may tell it to stop waiting (`give_up`).

    `id`: of its row, if the gateway that took the database over has added it (`Holder.take_over`). `settings`: of its
    connection.
    """

    def __init__(
        self,
        url: str,
        path: str,
        clock: Callable[[], int],
        order: DeliveryOrder | None = None,
        when_reconnected: Callable[[], object] | None = None,
        id: int = 0,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._order = order or DeliveryOrder()
        self._ticket = 0  # of the transaction whose result is not delivered; 0: it changed nothing for watchers
        self._when_reconnected = when_reconnected
        self._url = url
        self._path = path
        self._clock = clock
        self._settings = settings
        self._connection: Connection | None = Connection(url, settings)
        self._id = id  # of its row; 0: it has none yet
        self._serial = 0
        self._unheld: frozenset[int] = frozenset()  # sessions that the job was to write to without their locks
        self._is_closing = False
        self.counts = Counter[str]()  # of what COUNTED names
        self.last_failure: str | None = None

    def __repr__(self) -> str:
        return f"<Worker {self._id}: {dict(self.counts)}>"

    def write(self, jobs: Sequence[WorkItem]) -> None:
        """Run jobs, in one transaction if they can share it. Each gets a durable result, or an error. Never raises.

        The results of a transaction are delivered after those of earlier ones on the same sessions.
        """
        if len(jobs) > 1 and self._write_together(jobs):
            self._deliver(jobs)
            return
        for job in jobs:
            self._perform(job, lambda job: self._write_once((job,)))
            self._deliver((job,))

    def read(self, jobs: Sequence[WorkItem]) -> None:
        """Run each job on a snapshot that includes every earlier commit. Never raises."""
        for job in jobs:
            self._perform(job, self._read_once)
            deliver_results((job,))

    def give_up(self) -> None:
        """Do not wait for a server that cannot be reached: the store is being closed."""
        self._is_closing = True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _deliver(self, jobs: Sequence[WorkItem]) -> None:
        if self._ticket:
            self._order.wait_turn(self._ticket)
        deliver_results(jobs)
        self._give_back()

    def _write_together(self, jobs: Sequence[WorkItem]) -> bool:
        """Run the jobs in one transaction. Return False if it did not happen: then each is to be run by itself.

        If the server cannot be reached, they wait for it together, and are refused together.
        """
        self._unheld = frozenset()
        try:
            try:
                return self._write_once(jobs)
            except ConnectionLost:
                if self._connection is None:
                    raise
                self._reconnect(RECONNECT_S)
        except ConnectionLost as error:
            for job in jobs:
                self._refuse(job, error)
            return True
        except NotShared:
            return False
        except BaseException:  # the one that it is about will meet it again
            self._undo()
        self.counts["retries"] += 1
        return False

    def _perform(self, job: WorkItem, attempt: Callable[[WorkItem], object]) -> None:
        taken_keys = 0
        self._unheld = frozenset()
        try:
            for _ in range(MAX_ATTEMPTS):
                try:
                    attempt(job)
                    return
                except ServerError as error:
                    taken_keys += error.state == KEY_IS_TAKEN
                    if isinstance(error, SessionNotHeld):
                        self._unheld |= {error.session}
                    if error.state not in RETRIED_STATES or taken_keys == MAX_KEY_ATTEMPTS:
                        raise
                    self._undo()
                    reason: Exception = error
                except ConnectionLost as error:
                    self._reconnect(RECONNECT_S)
                    reason = error
                self.counts["retries"] += 1
            raise DatabaseBusy(path=self._path, why=reason, attempts=MAX_ATTEMPTS)
        except BaseException as error:
            self._refuse(job, error)

    def _refuse(self, job: WorkItem, error: BaseException) -> None:
        ledger_error = to_ledger_error(error, self._path)
        self.counts["failures"] += 1
        self.last_failure = str(ledger_error)
        job.fail(ledger_error)

    # ---------------------------------------------------------------- one attempt

    def _write_once(self, jobs: Sequence[WorkItem]) -> bool:
        """Run the jobs and commit. Return False if they cannot share a transaction: then nothing of it happened.

        Raises ServerError, ConnectionLost: then it did not happen, either.
        """
        connection = self._require_connection()
        if self._id == 0:
            ((self._id,),) = connection.read(own_statements()["worker_add"], {})
        if isinstance(self._clock, ServerClock) and self._clock.is_old:
            self._clock.synchronize(connection)
        now = self._clock()
        wanted = locks.join([locks.find_locks(job.fn, job.args) for job in jobs])
        if self._unheld:
            wanted = locks.widen(wanted, self._unheld)
        if (wanted.everything or wanted.is_apart) and len(jobs) > 1:
            return False
        connection.queue("BEGIN")
        held = HeldSessions(connection, locks.take(connection, wanted, now), wanted.keys)
        changed: set[int] = set()
        has_written = False
        for job in jobs:
            tx = PostgresTx(connection, now, held, is_shared=len(jobs) > 1)
            if not self._run(job, tx) and tx.has_written:
                connection.end("ROLLBACK")
                return len(jobs) == 1
            has_written = has_written or tx.has_written
            changed.update(session for session, _, _ in tx.dirty)
        if not has_written:
            connection.end("COMMIT")
            return True
        if changed:
            self._ticket = self._order.draw(changed)
        try:
            self._commit(connection, held)
        except BaseException:
            self._give_back()
            raise
        self.counts["commits"] += 1
        self.counts["transactions"] += len(jobs)
        return True

    def _read_once(self, job: WorkItem) -> None:
        connection = self._require_connection()
        connection.queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        tx = PostgresTx(connection, self._clock())
        self._run(job, tx)
        connection.end("ROLLBACK")
        if job.error is None and job.callbacks:
            job.fail(TypeError(f"{job!r} only reads: nothing can follow its commit"))

    def _run(self, job: WorkItem, tx: PostgresTx) -> bool:
        """Run the job's function. Return whether it succeeded; if not, its error is in the job.

        Raises ServerError, ConnectionLost: a fault of the server is no result of the function.
        """
        try:
            job.error = None
            job.result = job.fn(tx, *job.args, **job.kwargs)
            refuse_async_result(job)
        except (ServerError, ConnectionLost):
            self._undo()
            raise
        except BaseException as error:
            if tx.error is not None:  # the function turned the server's error into one of its own
                self._undo()
                raise tx.error from error
            job.fail(error)
        failed = tx.error
        job.callbacks = tx.end() if job.error is None else []
        if failed is not None:  # the function swallowed it
            self._undo()
            raise failed
        return job.error is None

    def _undo(self) -> None:
        with contextlib.suppress(ServerError, ConnectionLost):
            self._require_connection().end("ROLLBACK")

    def _give_back(self) -> None:
        if self._ticket:
            self._order.give_back(self._ticket)
            self._ticket = 0

    def _commit(self, connection: Connection, held: HeldSessions) -> None:
        self._serial += 1
        held.save_and_mark(self._id, self._serial)
        try:
            connection.end("COMMIT")
        except ServerError as error:
            if error.state == FOREIGN_KEY_VIOLATION and "mark" in error.reason:
                raise DatabaseTakenOver(path=self._path) from error
            raise
        except ConnectionLost:
            self.counts["lost_connections"] += 1
            if not self._was_committed():
                raise

    def _was_committed(self) -> bool:
        """Return whether the transaction with the newest number happened. Wait for the server as long as it takes."""
        while True:
            self._reconnect(None)
            connection = self._require_connection()
            try:
                connection.queue("BEGIN")
                rows = connection.read(own_statements()["worker_read_mark"], {"id": self._id})
                connection.end("ROLLBACK")
                if not rows:
                    raise DatabaseTakenOver(path=self._path)
                return rows == [[self._serial]]
            except (ConnectionLost, ServerError):
                time.sleep(RECONNECT_DELAY_S)

    # ---------------------------------------------------------------- connections

    def _require_connection(self) -> Connection:
        if self._connection is None:
            self._reconnect(RECONNECT_S)
        assert self._connection is not None
        return self._connection

    def _reconnect(self, patience_s: float | None) -> None:
        """Replace the connection. Raises ConnectionLost after `patience_s` seconds (None: never)."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        deadline = None if patience_s is None else time.monotonic() + patience_s
        while True:
            try:
                self._connection = Connection(self._url, self._settings)
                if self._when_reconnected is not None:
                    self._when_reconnected()
                return
            except ConnectionLost:
                self._connection = None
                if self._is_closing or (deadline is not None and time.monotonic() > deadline):
                    raise
                time.sleep(RECONNECT_DELAY_S)
