"""`semel ledger copy` between files: whatever interrupts it, only one of the two ledgers is used."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import apsw
import pytest
from backup_desk import Place, add_file
from cli_house import Cli
from outbox_desk import say
from step_killer import dies_at, find_steps
from terminal import semel

from semel.ledger import copy_ledger
from semel.ledger.backup import settle_restored
from semel.ledger.backup.restore import restore_backup
from semel.ledger.delivery import parts
from semel.ledger.sqlite import transfer
from semel.ledger.sqlite.open_ledger import lock_ledger
from semel.ledger.sqlite.store import Store, now_ms
from semel.ledger.storage import errors
from semel.ledger.storage.migrations import list_migrations


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """The data of a gateway that was killed: its last message is only in the log."""
    used = Place(tmp_path / "used", tmp_path / "backups")
    (used.data / "blobs").mkdir(parents=True)
    place = Place(tmp_path / "old", tmp_path / "backups")
    with Store.open_sync(used.ledger) as store:
        store.keep_mark()
        for text in ("first", "last"):
            store.write_sync(say, "hook:room", [text])
        add_file(used, store, b"what was sent")
        shutil.copytree(used.data, place.data)
    assert (place.data / "ledger.db-wal").stat().st_size
    return place


def copy(place: Place, data: Path) -> copy_ledger.LedgerCopy:
    return copy_ledger.copy_ledger(place.ledger, data / "ledger.db", (place.data, data), clock=now_ms)


def start_on(data: Path) -> tuple[list[str], bool]:
    """Open the ledger as a gateway does. Return the texts, and whether it is treated as restored."""
    with Store.open_sync(data / "ledger.db") as store:
        store.keep_mark()
        texts = [part["text"] for part in store.read_sync(parts.list_newest)]
        return texts, store.read_sync(settle_restored.is_unsettled_copy)


def read_content(data: Path) -> dict[str, tuple[int, str]]:
    """The rows of every table in a copy of this ledger: {table: (rows, digest)}."""
    db, found = apsw.Connection(str(data / "ledger.db")), {}
    try:
        for (table,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            rows = sorted(map(repr, db.execute(f"SELECT * FROM {table}")))
            found[table] = (len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest())
        return found
    finally:
        db.close()


def test_the_copy_is_the_ledger_with_its_files_and_is_no_restored_one(place: Place, tmp_path: Path) -> None:
    done, new = copy(place, tmp_path / "new"), tmp_path / "new"
    assert read_content(new) == read_content(place.data)
    assert {table.table: table.rows for table in done.tables if table.rows} == {
        table: rows for table, (rows, _) in read_content(new).items() if rows
    }
    assert (done.files.needed, done.files.copied, done.files.missing) == (1, 1, ())
    assert [path.read_bytes() for path in (new / "blobs").iterdir()] == [b"what was sent"]
    assert start_on(new) == (["last", "first"], False), "what waits is sent from the copy"
    schemas = [
        dict(apsw.Connection(str(data / "ledger.db")).execute("SELECT name, sql FROM sqlite_schema"))
        for data in (place.data, new)
    ]
    assert schemas[0] == schemas[1]


@pytest.mark.storm
def test_a_copy_killed_at_any_step_begins_anew_and_only_one_of_the_two_can_be_used(
    place: Place, tmp_path: Path
) -> None:
    content = read_content(shutil.copytree(place.data, tmp_path / "reference"))
    first, new = Place(shutil.copytree(place.data, tmp_path / "old0"), tmp_path), tmp_path / "new0"
    new.mkdir()
    steps = find_steps(
        lambda: copy(first, new), lambda: describe_files(first.data) + describe_files(new), tmp_path / "notes"
    )
    assert len(steps) > 10
    refused = set[tuple[str, str]]()
    for step in steps:
        old, data = Place(tmp_path / f"old{step}", tmp_path), tmp_path / f"new{step}"
        shutil.copytree(place.data, old.data)
        data.mkdir()
        assert dies_at(step, lambda: copy(old, data))  # noqa: B023
        answers = [try_start(shutil.copytree(each, tmp_path / f"{each.name}-copy")) for each in (old.data, data)]
        refused.add((answers[0], answers[1]))
        if answers[1] != "sends":
            copy(old, data)
        assert read_content(data) == content
        assert try_start(old.data) == "LedgerMoved"
        assert start_on(data) == (["last", "first"], False)
    assert refused == {
        ("sends", "empty"),
        ("sends", "LedgerCopying"),
        ("LedgerMoved", "LedgerCopying"),
        ("LedgerMoved", "sends"),
    }


def describe_files(data: Path) -> str:
    """The names of the files in a data directory, and whether each is empty: two kills that leave the same are one."""
    files = sorted(path for path in data.rglob("*") if path.is_file())
    return str([(str(path.relative_to(data)), path.stat().st_size > 0) for path in files])


def try_start(data: Path) -> str:
    """What a gateway does there: it sends, begins an empty ledger, or refuses with the error of this name."""
    try:
        return "sends" if start_on(data)[0] else "empty"
    except errors.LedgerError as error:
        return type(error).__name__


def test_who_has_moved_is_told_where_and_how_to_take_it_back(place: Place, tmp_path: Path) -> None:
    copy(place, tmp_path / "new")
    (tmp_path / "home").mkdir()
    cli = Cli(tmp_path / "home", place.data)
    told = cli("up", "--listen", "127.0.0.1:0", rc=1).stderr
    assert f"was copied to {tmp_path / 'new' / 'ledger.db'}" in told and "semel restore --here" in told
    assert cli.json("outbox", "list")[0]["text"] == "last", "it can still be read"
    copied = f"copied to {tmp_path / 'new' / 'ledger.db'}, which takes its place"
    assert copied in cli.json("status")["problem"]
    finding = next(one for one in cli.json("doctor", rc=1)["findings"] if one["subject"] == "ledger")
    assert copied in finding["text"] and "semel restore --here" in finding["remedy"]
    with pytest.raises(errors.LedgerMoved):
        copy(place, tmp_path / "another")
    with pytest.raises(errors.LedgerMoved):
        copy(place, tmp_path / "new")
    cli("restore", "--here")
    assert start_on(place.data) == (["last", "first"], True), "it is the past: nothing is sent on a guess"


def test_a_restored_backup_replaces_a_ledger_that_was_moved(place: Place, tmp_path: Path) -> None:
    place.back_up()
    copy(place, tmp_path / "new")
    restore_backup(place.folder, place.ledger, place.data, clock=now_ms, replace=True)
    assert start_on(place.data) == (["last", "first"], True)


def test_an_older_copy_stays_one(place: Place, tmp_path: Path) -> None:
    older = shutil.copytree(place.data, tmp_path / "older")
    with Store.open_sync(place.ledger) as store:
        store.keep_mark()
        store.write_sync(say, "hook:room", ["newest"])
    shutil.copy(place.ledger.with_name("ledger.db.mark"), older)
    copy(Place(older, tmp_path), tmp_path / "new")
    assert start_on(tmp_path / "new") == (["last", "first"], True)


@pytest.mark.parametrize("name", ["ledger.db", "ledger.db.mark", "ledger.db.moved"])
def test_a_place_that_is_used_is_left_as_it_is(place: Place, tmp_path: Path, name: str) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / name).write_text("of somebody")
    with pytest.raises(errors.CopyTargetInUse, match=f"{name} is there"):
        copy(place, tmp_path / "new")
    assert (tmp_path / "new" / name).read_text() == "of somebody"
    assert start_on(place.data) == (["last", "first"], False)


def test_while_a_gateway_runs_on_either_nothing_is_copied(place: Place, tmp_path: Path) -> None:
    for busy in (place.data, tmp_path / "new"):
        busy.mkdir(exist_ok=True)
        gateway = lock_ledger(busy / "ledger.db")
        with pytest.raises(errors.LedgerInUse, match="belongs to a running gateway"):
            copy(place, tmp_path / "new")
        gateway.release()
    old = transfer.SqliteSource(place.ledger, now_ms)
    new = transfer.SqliteTarget(tmp_path / "new" / "ledger.db", now_ms)
    assert try_start(place.data) == try_start(tmp_path / "new") == "LedgerInUse", "one that starts meanwhile"
    old.close()
    new.close()


def test_a_row_that_becomes_another_one_is_found(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = transfer.SqliteTarget.read_rows

    def read_wrongly(self, table):  # type: ignore[no-untyped-def]
        for row in read(self, table):
            yield row if table.name != "part" else (*row[:-1], 7)

    with monkeypatch.context() as patch:
        patch.setattr(transfer.SqliteTarget, "read_rows", read_wrongly)
        with pytest.raises(errors.CopyFailed, match="the table part differs"):
            copy(place, tmp_path / "new")
    assert (try_start(place.data), try_start(tmp_path / "new")) == ("sends", "LedgerCopying")
    copy(place, tmp_path / "new")


def test_a_reference_to_nothing_is_found(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = transfer.SqliteTarget.write_rows
    monkeypatch.setattr(
        transfer.SqliteTarget, "write_rows", lambda self, table, rows: table.name == "claim" or write(self, table, rows)
    )
    with pytest.raises(errors.CopyFailed, match="rows point nowhere"):
        copy(place, tmp_path / "new")


def test_a_ledger_that_breaks_a_law_is_not_copied(place: Place, tmp_path: Path) -> None:
    db = apsw.Connection(str(place.ledger))
    db.execute("UPDATE part SET hi = hi - 1")
    db.close()
    with pytest.raises(errors.CopySourceBroken, match="parts"):
        copy(place, tmp_path / "new")
    assert try_start(tmp_path / "new") == "empty"


def test_a_ledger_of_an_older_version_is_not_copied(tmp_path: Path) -> None:
    Store.open_sync(tmp_path / "old" / "ledger.db", migrations=list_migrations()[:-1]).close()
    with pytest.raises(errors.LedgerOlder, match="Start the gateway once"):
        copy(Place(tmp_path / "old", tmp_path), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_command_prints_every_table_and_what_to_do_next(place: Place, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    cli = Cli(tmp_path / "home", place.data)
    next((place.data / "blobs").iterdir()).write_bytes(b"damaged")
    done = cli("ledger", "copy", str(place.data), str(tmp_path / "new"))
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in done.stdout.splitlines()}
    assert rows["part"][0] == "2" and len(rows["part"][1]) == 32 and set(rows) >= {"ledger", "event", "entry", "blob"}
    assert f"set data_dir in [gateway] to {tmp_path / 'new'} and remove url" in done.stderr
    assert f"{place.ledger} is marked as moved" in done.stderr and "rows are equal in both" in done.stderr
    assert f"owner.token, the log and agents' workspaces stay in {place.data}: copy by hand" in done.stderr
    assert "1 file of messages were missing or damaged" in done.stderr
    told = cli.json("ledger", "copy", str(tmp_path / "new" / "ledger.db"), str(tmp_path / "third.db"))
    assert told["target"] == str(tmp_path / "third.db") and told["rows"] == sum(t["rows"] for t in told["tables"])
    assert {t["table"]: t["digest"] for t in told["tables"]} == {table: row[1] for table, row in rows.items()}


def test_a_terminal_shows_how_far_the_copy_has_come(place: Place, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    cli = Cli(tmp_path / "home", place.data)
    with semel("ledger", "copy", str(place.data), str(tmp_path / "new"), env=cli.env, cwd=cli.home) as terminal:
        terminal.expect("%")
        terminal.expect("rows are equal in both")


def test_a_copy_that_somebody_removed_is_not_made_again_from_the_past(place: Place, tmp_path: Path) -> None:
    copy(place, tmp_path / "new")
    shutil.rmtree(tmp_path / "new")
    with pytest.raises(errors.LedgerMoved, match="restore --here"):
        copy(place, tmp_path / "new")
    assert try_start(tmp_path / "new") == "empty"


def test_wrong_usage_ends_with_2(place: Place, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    cli = Cli(tmp_path / "home", place.data)
    for words, told in {
        ("mysql://a/b", "new"): "neither a postgresql:// URL nor a path",
        ("postgresql://host", "new"): "names no database",
        (str(place.data), str(place.ledger)): "are the same ledger",
    }.items():
        assert told in cli("ledger", "copy", *words, rc=2).stderr
