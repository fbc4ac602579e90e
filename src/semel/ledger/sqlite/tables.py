"""The tables of the ledger, as the migrations make them."""

from __future__ import annotations

from functools import cache

import apsw

from semel.ledger.storage.migrations import list_migrations
from semel.ledger.storage.transfer import Table

FILE_CONTENT = "blob_piece"


@cache
def list_tables() -> tuple[Table, ...]:
    """Return the tables of the newest schema version whose rows a copy of the ledger takes over, ordered by name.

    Both engines have them. The content of files is copied as files (`semel.ledger.copy_files`).
    """
    db = apsw.Connection(":memory:")
    try:
        for migration in list_migrations():
            db.execute(migration.sql)
        names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
        return tuple(_describe_table(db, str(name)) for (name,) in names if name != FILE_CONTENT)
    finally:
        db.close()


def _describe_table(db: apsw.Connection, name: str) -> Table:
    columns = db.execute("SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid", (name,)).fetchall()
    key = sorted((int(place), str(column)) for column, _, place in columns if place)
    return Table(
        name=name,
        columns=tuple(str(column) for column, _, _ in columns),
        types=tuple(str(kind) for _, kind, _ in columns),
        key=tuple(column for _, column in key),
    )
