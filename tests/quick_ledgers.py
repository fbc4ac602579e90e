"""New ledgers of tests are copies of an empty one: to run all migrations takes 10 ms of a core each time.

What differs is how the empty tables came to be. The tests of the ledger itself, and all processes that tests start,
create theirs as the program does.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import apsw
import pytest

from semel.ledger.sqlite import migrate
from semel.ledger.storage.migrations import Migration, list_migrations
from semel.ledger.storage.sql import Queries

FOLDERS_OF_THE_LEDGER = {"ledger", "upgrade", "backup"}
create_by_migrations = migrate._create
_copying = threading.Lock()


def choose_creation(item: pytest.Item) -> None:
    """Let a test's ledgers be copies, unless it is about ledgers."""
    is_about_ledgers = item.path.parent.name in FOLDERS_OF_THE_LEDGER
    migrate._create = create_by_migrations if is_about_ledgers else create_by_copy


def create_by_copy(
    db: apsw.Connection, migrations: Sequence[Migration], statements: Queries, path: Path, name: str, now: int
) -> None:
    if tuple(migrations) != list_migrations():
        create_by_migrations(db, migrations, statements, path, name, now)
        return
    with _copying, db.backup("main", _make_empty_ledger(), "main") as copy:
        copy.step(-1)
    db.execute(statements["ledger_found"].sql, {"name": name, "at": now})


@cache
def _make_empty_ledger() -> apsw.Connection:
    """A ledger in memory that has all tables and the marks of a ledger's file, and no rows."""
    empty = apsw.Connection(":memory:")
    for migration in list_migrations():
        empty.execute(migration.sql)
    empty.execute(f"PRAGMA application_id = {migrate.APPLICATION_ID}")
    empty.execute(f"PRAGMA user_version = {list_migrations()[-1].version}")
    return empty
