"""The versions of the ledger's schema, for every engine.

Version 1 is `schema.sql`, the ledger of Semel 0.1.0. Version N is `migrations/000N_why.sql` applied to version N-1. A
new ledger runs the same migrations as an old one, so both end with the same tables. A migration is named after the
problem that it fixes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Migration:
    """A migration from the schema version `version - 1` to `version`."""

    version: int
    name: str
    sql: str


@cache
def list_migrations() -> tuple[Migration, ...]:
    """Return all migrations, in order, from an empty file to the newest version."""
    ledger = resources.files("semel.ledger")
    files = sorted(
        (f.name, f.read_text("utf-8")) for f in ledger.joinpath("migrations").iterdir() if f.name.endswith(".sql")
    )
    return read_migrations(ledger.joinpath("schema.sql").read_text("utf-8"), files)


def read_migrations(schema: str, files: Sequence[tuple[str, str]]) -> tuple[Migration, ...]:
    """Return `schema` as the migration to version 1, followed by the migrations in `files`.

    `files`: pairs of a file name and its SQL. Raises ValueError for a wrong file name, or if a version is missing.
    """
    migrations = [Migration(1, "schema", schema)]
    for file, sql in files:
        match = re.fullmatch(r"(\d{4})_([a-z0-9_]+)\.sql", file)
        if match is None or int(match[1]) != migrations[-1].version + 1:
            raise ValueError(f"migrations/{file}: expected {migrations[-1].version + 1:04}_what_it_mends.sql")
        migrations.append(Migration(int(match[1]), match[2], sql))
    return tuple(migrations)
