"""One gateway for each database, until several share one: an advisory lock, on a connection of its own.

The server releases the lock when the connection ends, however it ends. A gateway that lost it so may still run. That is
why the next one dismisses its workers: none of their transactions commits any more (`worker_mark`). The lock is never
taken in a transaction of the ledger.
"""

from __future__ import annotations

from pathlib import Path

from semel.ledger.postgres.errors import DatabaseInUse
from semel.ledger.postgres.statements import own_statements
from semel.ledger.postgres.wire import Connection

_LOCK = 0x53454D4C  # "SEML"
_HOLDER = f"""SELECT coalesce(host(a.client_addr), 'this host'), a.pid, CAST(a.backend_start AS text)
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory' AND l.objid = {_LOCK}
AND l.granted AND a.datname = current_database()"""


class Holder:
    """The database, held for this gateway until `release`. Raises DatabaseInUse if another one holds it."""

    def __init__(self, url: str, path: Path) -> None:
        self._connection = Connection(url)
        try:
            ((is_held,),) = self._connection.execute(f"SELECT pg_try_advisory_lock({_LOCK})")
            self._connection.end("COMMIT")
            if not is_held:
                rows = self._connection.execute(_HOLDER)
                holder = "from {}, server process {}, since {}".format(*rows[0]) if rows else "it is ending"
                raise DatabaseInUse(path=path, holder=holder)
            self._connection.change(own_statements()["workers_dismiss"], {})
            self._connection.end("COMMIT")
        except BaseException:
            self._connection.close()
            raise

    def release(self) -> None:
        self._connection.close()
