"""A ledger of version 0.1.0 is brought forward, whatever interrupts it, and keeps all that it held."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from cli_house import Cli, end
from gateway_world import until
from make_old_data import read_exports, start
from upgrade_desk import NEXT, WAY, OldData, read_rows, read_schema, read_schema_of, without_new_columns

from semel.ledger.admin import books, erase
from semel.ledger.backup import settle_restored
from semel.ledger.delivery import parts
from semel.ledger.sqlite import migrate
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.errors import LedgerNewer, UpgradeNotCopied
from semel.ledger.storage.migrations import Upgrade, list_migrations


def read_old_rows(old: OldData) -> Any:
    """The rows as the old version left them, read from a copy: opening a ledger changes its log."""
    copy = old.data.with_name("unchanged")
    shutil.copytree(old.data, copy)
    return read_rows(copy / "ledger.db")


def exports_of(store: Store) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = store.read_sync(read_exports)
    return found


def comparable(exports: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {key: [{**header, "exported": 0}, *records] for key, (header, *records) in exports.items()}


def test_the_old_data_has_rows_of_every_kind(old: OldData) -> None:
    rows = read_old_rows(old)
    assert [table for table, found in rows.items() if not found] == []
    assert {"held", "queued", "sent", "rejected", "dropped"} <= {row["state"] for row in rows["part"]}
    assert {"running", "done"} <= {row["state"] for row in rows["turn"]}
    assert {record["line"] for records in old.exports.values() for record in records} == {"session", "turn", "entry"}
    assert {"talk", "copy", "put-away", "open", "demo:chat:dm"} <= old.exports.keys()


def test_schema_sql_stays_what_version_0_1_0_wrote(old: OldData) -> None:
    db = apsw.Connection(":memory:")
    db.execute(list_migrations()[0].sql)
    assert read_schema_of(db) == read_schema(old.ledger), "schema.sql is version 1: add a file to migrations/ instead"


@pytest.mark.parametrize("way", [list_migrations(), WAY], ids=["this version", "a later version"])
def test_an_upgraded_ledger_holds_and_exports_what_the_old_one_did(old: OldData, way: Any) -> None:
    before = read_old_rows(old)
    with Store.open_sync(old.ledger, migrations=way) as store:
        assert comparable(exports_of(store)) == comparable(old.exports)
        broken = [book for book in store.read_sync(books.audit) if not book.ok]
        assert broken == []
    after = read_rows(old.ledger)
    assert without_new_columns(after, before) == before
    assert all(session["seen"] == session["rev"] for session in after["session"]), "nothing old is unread"


def test_what_is_said_after_an_upgrade_stands_behind_what_waited_before(old: OldData) -> None:
    before = read_old_rows(old)["part"]
    tails = {part["dest"]: max(each["line"] for each in before if each["dest"] == part["dest"]) for part in before}
    assert len(tails) > 1
    with Store.open_sync(old.ledger) as store:
        places = {dest: store.write_sync(parts.take_place, dest) for dest in [*tails, "hook:new"]}
    assert places == {dest: tail + 1 for dest, tail in tails.items()} | {"hook:new": 1}


@pytest.mark.storm
def test_an_upgrade_killed_at_any_statement_goes_on_at_the_next_start(old: OldData, tmp_path: Path) -> None:
    before = read_old_rows(old)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, Path(__file__).with_name("kill_worker.py"), old.ledger, tmp_path / "killed"]
    statements, outcomes = json.loads(subprocess.run(command, env=env, check=True, capture_output=True).stdout)
    assert [killed for _, killed in outcomes] == [True] * (len(outcomes) - 1) + [False]
    assert statements > sum(migration.sql.count(";") for migration in WAY[1:])
    assert len(outcomes) > 2 * len(WAY[1:])  # before and after each commit
    versions = set()
    for copy, _ in outcomes:
        with Store.open_sync(copy, migrations=WAY) as store:
            assert [book for book in store.read_sync(books.audit) if not book.ok] == []
        assert without_new_columns(read_rows(Path(copy)), before) == before
        versions |= {path.name for path in Path(copy).parent.glob("*.version-*")}
    assert {f"ledger.db.version-{n}" for n in range(1, len(WAY))} >= versions >= {"ledger.db.version-1"}


async def test_a_gateway_goes_on_with_what_the_killed_one_left(old: OldData) -> None:
    world = await start(old.data)
    try:
        await world.idle("open")
        texts = await world.texts("open", "agent")
        assert any("You said: this one waits" in text for text in texts), texts
        await until(lambda: is_sent(world, "a promise"))
        await until(lambda: is_erased(world))
        await world.balanced()
    finally:
        await world.stop()


async def is_sent(world: Any, text: str) -> bool:
    return text in world.channels["hook"].platform.shown("room")


async def is_erased(world: Any) -> bool:
    return not await world.gateway.record.read(erase.list_unfinished)


def test_semel_logs_tells_of_the_upgrade(old: OldData) -> None:
    cli = Cli(old.data.parent, old.data)
    try:
        end(cli.up())
    finally:
        cli.leave()
    told = f"semel.activity: the ledger was upgraded from version 1 to {len(list_migrations())}; a copy of it is kept\n"
    assert told in cli("logs").stdout


def test_the_copy_of_an_upgraded_ledger_is_what_the_old_version_wrote(old: OldData) -> None:
    before, told = read_old_rows(old), list[Upgrade]()
    Store.open_sync(old.ledger, migrations=WAY, announce=told.append).close()
    copy = migrate.copy_path(old.ledger, 1)
    assert told == [Upgrade(1, NEXT.version, copy)]
    assert read_rows(copy) == before
    assert copy.stat().st_mode & 0o777 == 0o600


def test_the_copy_put_back_counts_as_an_older_copy(old: OldData) -> None:
    with Store.open_sync(old.ledger, migrations=WAY) as store:
        store.keep_mark()
        store.write_sync(lambda tx: tx.run("cursor_set", source="a", value="said after the upgrade", at=tx.now))
    for path in (old.ledger, *old.data.glob("ledger.db-*")):
        path.unlink()
    migrate.copy_path(old.ledger, 1).rename(old.ledger)
    with Store.open_sync(old.ledger, migrations=WAY[:1]) as store:
        store.keep_mark()
        assert store.read_sync(settle_restored.is_unsettled_copy)


def test_a_ledger_that_cannot_be_copied_stays_as_it_is(old: OldData) -> None:
    before = read_old_rows(old)
    (old.data / "ledger.db.version-1").mkdir()
    with pytest.raises(UpgradeNotCopied, match="It is unchanged"):
        Store.open_sync(old.ledger, migrations=WAY)
    assert read_rows(old.ledger) == before


@pytest.mark.long
def test_an_older_semel_refuses_a_newer_ledger_in_words(old: OldData) -> None:
    Store.open_sync(old.ledger, migrations=WAY).close()
    after = read_rows(old.ledger)
    words = f"has version {NEXT.version}; this Semel knows versions up to {NEXT.version - 1}. Run the newer Semel"
    with pytest.raises(LedgerNewer, match=words):
        Store.open(old.ledger)
    for command in ("up", "doctor", "backup"):
        arguments = [command, *(["--listen", "127.0.0.1:0"] if command == "up" else [])]
        arguments += [str(old.data.parent / "backups")] if command == "backup" else []
        ran = subprocess.run(
            [sys.executable, "-m", "semel", *arguments, "--data-dir", str(old.data)],
            capture_output=True, text=True, timeout=60, check=False, cwd=old.data,
        )  # fmt: skip
        assert ran.returncode == 1, (command, ran.stdout, ran.stderr)
        assert words in " ".join((ran.stdout + ran.stderr).split()), (command, ran.stdout, ran.stderr)
        assert "Traceback" not in ran.stderr
    assert read_rows(old.ledger) == after
