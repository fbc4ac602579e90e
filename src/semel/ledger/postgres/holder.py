"""The one gateway that uses a database: it holds an advisory lock, on a connection of its own.

The server releases the lock when the connection ends, however it ends. A gateway that lost it so may still run, and
takes it again when it connects again. If another gateway was faster, that one has dismissed its workers: none of their
transactions commits any more (`worker_mark`). The lock is never taken in a transaction of the ledger.
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
_HOLDER = f"""SELECT coalesce(host(a.client_addr), 'this host'), a.pid, CAST(a.backend_start AS text)
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory' AND l.objid = {LOCK}
AND l.objsubid = 1 AND l.granted AND a.datname = current_database()"""


def name_application(member: int) -> str:
    """Return the name of the connections on which a member's workers write."""
    return f"semel {member}"


class Holder:
    """The database, held for this gateway until `release`. Raises DatabaseInUse if another one holds it.

    `was_released`: the gateway before had released it, so it was not killed. Known after `take_over`.
    `application`: the name of the connections on which the workers write.
    """

    application = "semel"

    def __init__(self, url: str, path: str) -> None:
        self._url = url
        self._turn = threading.Lock()  # the workers' threads may ask at once
        self._has_taken_over = False
        self._member = 0  # in a cluster: the id of the member that has taken over
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
        return self._connection.execute(sql)

    def hold_again(self) -> None:
        """Take the lock again if its connection was lost, as by a restart of the server.

        If another gateway was faster, it has dismissed this one's workers: their next transaction tells.
        """
        with self._turn:
            try:
                self._connection.execute("SELECT 1")
            except (ConnectionLost, ServerError):
                self._connection.close()
                self._connection = Connection(self._url)
                self._name_connection()
                self._try_lock()

    def _try_lock(self) -> bool:
        ((is_held,),) = self._connection.execute(f"SELECT pg_try_advisory_lock({LOCK})")
        self._is_held = bool(is_held)
        return self._is_held

    def add_workers(self, count: int) -> list[int]:
        """Let this gateway write with so many workers, as the only one, and return their ids."""
        return self.take_over(count)

    def take_over(self, workers: int = 0, member: int = 0) -> list[int]:
        """Let no worker of an earlier gateway commit any more, and return the ids of as many new workers.

        Both is one transaction of the connection that holds the lock. So no worker is added by a gateway that has lost
        its place. The ledger's tables must be there. `member`: the id of a member of a cluster, which becomes the
        active one; then other members go on, and only the workers of the active one before are dismissed.
        """
        self._member = member
        self._name_connection()
        self._connection.queue("BEGIN")
        if member:
            dismissed = self._replace_active(member)
            ids = add_workers(self._connection, member, workers)
        else:
            dismissed = self._dismiss_workers()
            ids = [self._connection.read(own_statements()["worker_add"], {})[0][0] for _ in range(workers)]
        self._connection.end("COMMIT")
        self.was_released = dismissed == 0
        self._has_taken_over = True
        return ids

    def _replace_active(self, member: int) -> int:
        """Make a member the active one, and remove the one before. Return how many workers were dismissed with it."""
        own = own_statements()
        dismissed = self._connection.change(own["member_dismiss_active"], {})
        ((before,),) = self._connection.execute("SELECT member FROM active_member")
        self._connection.send(own["member_activate"], {"id": member})
        self._connection.send(own["member_remove"], {"id": before})
        return dismissed

    def _name_connection(self) -> None:
        """Let this connection end with those of the member's workers, if another gateway takes over."""
        if self._member:
            self._connection.execute(f"SET application_name = '{name_application(self._member)}'")

    def release(self) -> None:
        """Let another gateway hold the database. Call this when all workers are closed."""
        if self._has_taken_over and self._is_held:  # the workers may be those of a gateway that has taken over
            with contextlib.suppress(ServerError, ConnectionLost):  # else the next gateway checks the books
                self._connection.queue("BEGIN")
                if self._member:
                    self._connection.send(own_statements()["member_dismiss"], {"id": self._member})
                else:
                    self._dismiss_workers()
                self._connection.end("COMMIT")
        self._connection.close()

    def hand_over(self) -> None:
        """Let another member become the active one. The workers of this one go on."""
        with contextlib.suppress(ServerError, ConnectionLost):  # then another one takes over a moment later
            self._connection.change(own_statements()["member_step_down"], {"id": self._member})
        self._connection.close()

    def _dismiss_workers(self) -> int:
        if "active_member" in list_table_names(self._connection):  # gateways of a cluster were here
            self._connection.execute("UPDATE active_member SET member = NULL")
        return self._connection.change(own_statements()["workers_dismiss"], {})


def add_workers(connection: Connection, member: int, count: int) -> list[int]:
    """Let a member of a cluster run turns and write with so many workers. Return their ids."""
    connection.send(own_statements()["member_serve"], {"id": member})
    return [connection.read(own_statements()["member_add_worker"], {"id": member})[0][0] for _ in range(count)]


def is_database_held(connection: Connection) -> bool:
    """Whether a gateway holds the database."""
    return bool(connection.execute(_HOLDER))
