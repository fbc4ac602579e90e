"""What tests of upgrades compare: the rows of a ledger file, and what its export says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from semel.ledger.storage.migrations import Migration, list_migrations

NEXT = Migration(
    len(list_migrations()) + 1,
    "what_a_later_version_does",
    """
    ALTER TABLE part ADD COLUMN later TEXT;
    CREATE TABLE later(id INTEGER PRIMARY KEY, entry INTEGER NOT NULL REFERENCES entry(id)) STRICT;
    INSERT INTO later(entry) SELECT id FROM entry;
    CREATE TABLE fresh(event INTEGER PRIMARY KEY REFERENCES event(id), channel TEXT NOT NULL, why TEXT NOT NULL) STRICT;
    INSERT INTO fresh SELECT event, channel, why FROM quarantine;
    DROP TABLE quarantine;
    ALTER TABLE fresh RENAME TO quarantine;
    UPDATE part SET later = 'x' WHERE state = 'held';
    CREATE INDEX later_entry ON later(entry);
    """,
)
WAY = (*list_migrations(), NEXT)
"""All migrations of this version, and one more, as a later version may have it."""

Rows = dict[str, list[dict[str, Any]]]


@dataclass
class OldData:
    """`data`: the data directory. `exports`: what the old version's export said of each session, {key: [record]}."""

    data: Path
    exports: dict[str, list[dict[str, Any]]]

    @property
    def ledger(self) -> Path:
        return self.data / "ledger.db"


def read_rows(path: Path) -> Rows:
    """Every row of every table, {table: [{column: value}]}."""
    db = apsw.Connection(str(path))
    try:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: _rows_of(db, name) for name in names if not name.startswith("sqlite_")}
    finally:
        db.close()


def _rows_of(db: apsw.Connection, table: str) -> list[dict[str, Any]]:
    columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
    found = [dict(zip(columns, row, strict=True)) for row in db.execute(f'SELECT * FROM "{table}"')]
    return sorted(found, key=lambda row: json.dumps(row, default=repr))


def read_schema(path: Path) -> dict[str, str]:
    """{name: SQL} of the tables and indexes, without comments and white space."""
    db = apsw.Connection(str(path))
    try:
        return read_schema_of(db)
    finally:
        db.close()


def read_schema_of(db: apsw.Connection) -> dict[str, str]:
    found = db.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    return {name: "".join("".join(line.partition("--")[0] for line in sql.splitlines()).split()) for name, sql in found}


def without_new_columns(new: Rows, old: Rows) -> Rows:
    """The rows of the old tables, without columns that the old version did not have."""
    kept = {}
    for table, rows in old.items():
        columns = rows[0].keys()
        found = [{column: row[column] for column in columns} for row in new[table]]
        kept[table] = sorted(found, key=lambda row: json.dumps(row, default=repr))
    return kept
