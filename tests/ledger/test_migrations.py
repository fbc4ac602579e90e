"""Versions go forward, each step whole or not at all, and nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from semel.ledger.sqlite.store import Store
from semel.ledger.storage.errors import LedgerNewer, MigrationFailed
from semel.ledger.storage.migrations import Migration, list_migrations, read_migrations
from semel.ledger.storage.sql import Tx

NEXT = len(list_migrations()) + 1
GROWS = "ALTER TABLE cursor ADD COLUMN lag INTEGER; CREATE TABLE extra(id INTEGER PRIMARY KEY) STRICT;"
REBUILDS = """
    CREATE TABLE fresh(id INTEGER PRIMARY KEY, event INTEGER NOT NULL REFERENCES event(id), digest BLOB NOT NULL,
      payload TEXT NOT NULL, at INTEGER NOT NULL, repeats INTEGER NOT NULL DEFAULT 0, UNIQUE(event, digest)) STRICT;
    INSERT INTO fresh SELECT id, event, digest, payload, at, repeats FROM conflict;
    DROP TABLE conflict;
    ALTER TABLE fresh RENAME TO conflict;
"""


def way(*sql: str) -> tuple[Migration, ...]:
    return (*list_migrations(), *(Migration(NEXT + n, f"step_{n}", text) for n, text in enumerate(sql)))


def note(tx: Tx, source: str) -> int:
    return tx.count_changed("cursor_set", source=source, value="x", at=tx.now)


def noted(tx: Tx, source: str) -> bool:
    return tx.value(str, "cursor_get", source=source) is not None


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A real file of the present version, with something in it."""
    path = tmp_path / "ledger.db"
    with Store.open(path) as store:
        for n in range(10):
            store.write_sync(note, f"s{n}")
    return path


def dump(path: Path) -> tuple[object, ...]:
    """Version, schema and contents."""
    db = apsw.Connection(str(path))
    schema = db.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
    rows = db.execute("SELECT * FROM cursor ORDER BY source").fetchall()
    version = db.execute("PRAGMA user_version").get
    db.close()
    return version, schema, rows


def test_an_old_ledger_is_brought_forward_and_keeps_everything(ledger: Path) -> None:
    with Store.open_sync(ledger, migrations=way(GROWS, REBUILDS)) as store:
        assert all(store.read_sync(noted, f"s{n}") for n in range(10))
        store.write_sync(note, "new")
        db = store._require_committer()._db
        assert db.execute("PRAGMA foreign_keys").get == 1
    version, _, rows = dump(ledger)
    assert version == NEXT + 1
    assert isinstance(rows, list) and len(rows) == 11
    with pytest.raises(LedgerNewer):
        Store.open(ledger)


def test_a_new_ledger_and_one_brought_forward_have_the_same_tables(ledger: Path, tmp_path: Path) -> None:
    longer = way(GROWS, REBUILDS)
    Store.open_sync(ledger, migrations=longer).close()
    Store.open_sync(tmp_path / "new.db", migrations=longer).close()
    assert dump(ledger)[:2] == dump(tmp_path / "new.db")[:2]


def test_a_ledger_of_this_version_is_not_touched(ledger: Path) -> None:
    before = dump(ledger)
    Store.open(ledger).close()
    assert dump(ledger) == before


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (GROWS + "SELECT * FROM no_such_table;", "no such table"),
        (GROWS + "DELETE FROM cursor WHERE source = 's3';", "1 rows of cursor would be lost"),
        ("DROP TABLE cursor;", "10 rows of cursor would be lost"),
        ("INSERT INTO hearing(event, session, seq, wakes) VALUES(9, 9, 1, 0);", "2 rows would point nowhere"),
        ("THIS IS NOT SQL", "syntax error"),
        ("COMMIT; DROP TABLE cursor;", "not authorized"),
    ],
    ids=["fails half way", "deletes", "drops", "breaks a reference", "nonsense", "leaves the transaction"],
)
def test_a_migration_that_goes_wrong_leaves_the_ledger_as_it_was(ledger: Path, sql: str, why: str) -> None:
    before = dump(ledger)
    with pytest.raises(MigrationFailed, match=why) as refused:
        Store.open_sync(ledger, migrations=way(sql))
    assert f"version {NEXT - 1} to version {NEXT}" in str(refused.value)
    assert dump(ledger) == before
    with Store.open(ledger) as store:  # the Semel that wrote it goes on
        store.write_sync(note, "still here")


def test_the_steps_before_a_failing_one_stay(ledger: Path) -> None:
    with pytest.raises(MigrationFailed):
        Store.open_sync(ledger, migrations=way(GROWS, "nonsense"))
    assert dump(ledger)[0] == NEXT
    Store.open_sync(ledger, migrations=way(GROWS, REBUILDS)).close()
    assert dump(ledger)[0] == NEXT + 1


def test_a_migration_file_needs_the_next_number_and_a_name() -> None:
    found = read_migrations("CREATE TABLE a(x)", [("0002_add_b.sql", "B"), ("0003_add_c.sql", "C")])
    assert [(step.version, step.name) for step in found] == [(1, "schema"), (2, "add_b"), (3, "add_c")]
    wrong: Sequence[str] = ("0003_gap.sql", "2_short.sql", "0002.sql", "0002 blank.sql", "0001_again.sql")
    for name in wrong:
        with pytest.raises(ValueError, match="expected 0002_what_it_mends"):
            read_migrations("", [(name, "")])


def test_the_packages_own_steps_are_in_order() -> None:
    assert [step.version for step in list_migrations()] == list(range(1, NEXT))
