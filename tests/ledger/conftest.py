"""Shared by the tests of the ledger."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transaction_desk import Desk

from proof.machines.engines import ENGINE

SQLITE_FILES = {
    "test_common_sql.py": "holds the shared statements to what SQLite has in common with others",
    "test_locks.py": "holds the functions to what they lock, and SQLite to running nothing for it",
    "test_migrations.py": "migrates SQLite's file, with a copy beside it",
    "test_plans.py": "reads SQLite's plans; PostgreSQL's are read in test_postgres_statements.py",
    "test_rows.py": "asks SQLite which columns a statement returns",
    "test_store_disk.py": "fills SQLite's disk",
    "test_store_kill.py": "kills the program that writes SQLite's file; test_postgres_commits.py kills servers",
    "test_store_open.py": "opens SQLite's file; test_postgres_open.py opens databases",
    "test_store_power.py": "cuts the power under SQLite's file",
    "test_transactions_cost.py": "counts the steps of SQLite's virtual machine",
}
"""Test files that are about SQLite's file, and why: they are left out where another engine is tested."""

POSTGRES_FILES = [
    "test_machine_faults.py",
    "test_postgres_commits.py",
    "test_postgres_departures.py",
    "test_postgres_held.py",
    "test_postgres_hints.py",
    "test_postgres_meanwhile.py",
    "test_postgres_members.py",
    "test_postgres_open.py",
    "test_postgres_pooler.py",
    "test_postgres_schema.py",
    "test_postgres_statements.py",
    "test_postgres_timeouts.py",
    "test_postgres_together.py",
    "test_postgres_turn_cost.py",
]
"""Test files that start a PostgreSQL server: `make test-postgres` runs them."""

collect_ignore = POSTGRES_FILES if ENGINE == "sqlite" else list(SQLITE_FILES)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about SQLite's writer where another engine is tested: in CI, a skip would be a failure."""
    left_out = [item for item in items if ENGINE != "sqlite" and item.get_closest_marker("sqlite")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A ledger in memory whose books must hold when the test is over."""
    desk = Desk()
    yield desk
    desk.balanced()
    desk.store.close()
