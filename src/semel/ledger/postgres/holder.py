"""The one gateway that uses a database: it holds an advisory lock, on a connection of its own.

The server releases the lock when the connection ends, however it ends. A gateway that lost it so may still run, and
takes it again when it connects again. If another gateway was faster, that one has dismissed its workers: none of their
transactions commits any more (`save_and_mark`). The lock is never taken in a transaction of the ledger.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from semel.ledger.postgres.errors import DatabaseInUse
from semel.ledger.postgres.migrate import list_table_names
from semel.ledger.postgres.statements import own_statements
from semel.ledger.postgres.wire import Connection, ConnectionLost, ServerError

LOCK = 0x53454D4C  # "SEML", the number of the advisory lock
_KEEPALIVES = (
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
)
"""If a gateway's machine is gone, the server releases its lock after 25 s, not after the usual 2 hours."""
ACTIVE_TABLE = "active_member"
"""Names the active gateway, if several share the database (`members.py`)."""
_HOLDER = f"""SELECT coalesce(host(a.client_addr), 'this host'), a.pid, CAST(a.backend_start AS text)
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory' AND l.objid = {LOCK}
AND l.granted AND a.datname = current_database()"""


class Holder:
    """The database, held for this gateway until `release`. Raises DatabaseInUse if another one holds it.

    `was_released`: the gateway before had released it, so it was not killed. Known after `take_over`.
    """

    def __init__(self, url: str, path: str) -> None:
        self._url = url
        self._turn = threading.Lock()  # the workers' threads may ask at once
        self._has_taken_over = False
        self._is_held = False
        self.was_released = True
        self._connection = Connection(url)
        try:
            if not self._try_lock():
                rows = self._connection.execute(_HOLDER)
                holder = "from {}, server process {}, since {}".format(*rows[0]) if rows else "it is ending"
                raise DatabaseInUse(path=path, holder=holder)
        except BaseException:
            self._connection.close()
            raise

    def run(self, sql: str) -> list[list[Any]]:
        """Run a statement on the connection that holds the lock. If the lock was lost, this raises ConnectionLost."""
        self._connection.queue("BEGIN")
        rows = self._connection.execute(sql)
        self._connection.end("COMMIT")
        return rows

    def hold_again(self) -> None:
        """Take the lock again if its connection was lost, as by a restart of the server.

        If another gateway was faster, it has dismissed this one's workers: their next transaction tells.
        """
        with self._turn:
            try:
                self._connection.execute("SELECT 1")
                self._connection.end("COMMIT")
            except (ConnectionLost, ServerError):
                self._connection.close()
                self._connection = Connection(self._url)
                self._try_lock()

    def _try_lock(self) -> bool:
        for setting in _KEEPALIVES:
            self._connection.execute(setting)
        ((is_held,),) = self._connection.execute(f"SELECT pg_try_advisory_lock({LOCK})")
        self._connection.end("COMMIT")
        self._is_held = bool(is_held)
        return self._is_held

    def take_over(self, workers: int = 0) -> list[int]:
        """Let no worker of an earlier gateway commit any more, and return the ids of as many new workers.

        Both is one transaction of the connection that holds the lock. So no worker is added by a gateway that has lost
        its place. The ledger's tables must be there.
        """
        self.was_released = self._dismiss_workers() == 0
        ids = [self._connection.read(own_statements()["worker_add"], {})[0][0] for _ in range(workers)]
        self._connection.end("COMMIT")
        self._has_taken_over = True
        return ids

    def release(self) -> None:
        """Let another gateway hold the database. Call this when all workers are closed."""
        if self._has_taken_over and self._is_held:  # the workers may be those of a gateway that has taken over
            with contextlib.suppress(ServerError, ConnectionLost):  # else the next gateway checks the books
                self._dismiss_workers()
                self._connection.end("COMMIT")
        self._connection.close()

    def _dismiss_workers(self) -> int:
        if ACTIVE_TABLE in list_table_names(self._connection):
            self._connection.execute(f"UPDATE {ACTIVE_TABLE} SET member = NULL")
        return self._connection.change(own_statements()["workers_dismiss"], {})
