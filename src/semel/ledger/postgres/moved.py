"""The note that a copy has taken the place of the ledger in a database: the table `moved`, which others do not have.

Two ledgers with the same content would send the same messages, so no gateway starts on the one that was copied (Law
14).
"""

from __future__ import annotations

from semel.ledger.postgres.wire import Connection
from semel.ledger.storage.errors import LedgerMoved

MOVED_TABLE = "moved"


def read_moved_to(connection: Connection) -> str | None:
    """Return the copy of the database's ledger that has taken its place; None if none has."""
    ((is_there,),) = connection.execute(f"SELECT to_regclass('{MOVED_TABLE}') IS NOT NULL")
    if not is_there:
        return None
    rows = connection.execute(f"SELECT target FROM {MOVED_TABLE}")
    return str(rows[0][0]) if rows else None


def refuse_moved(connection: Connection, path: str) -> None:
    """Raise LedgerMoved if a copy of the ledger has taken its place."""
    target = read_moved_to(connection)
    if target is not None:
        raise LedgerMoved(path=path, target=target)


def write_note(target: str) -> str:
    """Return the statement that notes the copy `target`."""
    quoted = target.replace("'", "''")
    return f"CREATE TABLE IF NOT EXISTS {MOVED_TABLE} AS SELECT CAST('{quoted}' AS text) AS target"


def forget_move(connection: Connection) -> None:
    """Take the ledger back."""
    connection.execute(f"DROP TABLE IF EXISTS {MOVED_TABLE}")
