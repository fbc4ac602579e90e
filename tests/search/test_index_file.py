"""The index may be lost at any time: nothing else is, and it is made anew."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from gateway_world import World
from test_search import heard, places

from semel.gateway.errors import GatewayUnavailable
from semel.ledger.search import index as index_module
from semel.ledger.search.index import Index, IndexFailed, IndexReset, index_statements
from semel.ledger.sqlite.store import Store


async def test_the_index_stands_beside_the_ledger_for_its_owner_only(world: World) -> None:
    await world.gateway.record.write(heard, "s", "anything")
    assert places(await world.gateway.searches.find("anything"))
    path = world.path / "ledger.db-search"
    assert world.gateway.searches.path == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_no_text_is_kept_in_the_index(world: World) -> None:
    await world.gateway.record.write(heard, "s", "Exactly This Sentence")
    assert places(await world.gateway.searches.find("sentence"))
    assert b"Exactly This Sentence" not in await asyncio.to_thread(world.gateway.searches.path.read_bytes)


async def spoil_header(world: World) -> None:
    path = world.gateway.searches.path
    path.write_bytes(b"this is no database" * 1000)


async def spoil_middle(world: World) -> None:
    path = world.gateway.searches.path
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)


async def other_version(world: World) -> None:
    with apsw.Connection(str(world.gateway.searches.path)) as db:
        db.execute("PRAGMA user_version = 99")


async def other_ledger(world: World) -> None:
    with apsw.Connection(str(world.gateway.searches.path)) as db:
        db.execute("UPDATE about SET ledger = 'another'")


async def remove(world: World) -> None:
    world.gateway.searches.path.unlink()


async def lost_table(world: World) -> None:
    with apsw.Connection(str(world.gateway.searches.path)) as db:
        db.execute("DROP TABLE doc")


@pytest.mark.parametrize("harm", [spoil_header, spoil_middle, other_version, other_ledger, remove, lost_table])
async def test_an_index_that_was_harmed_while_the_gateway_was_away_is_made_anew(world: World, harm: Any) -> None:
    await world.gateway.record.write(heard, "s", "one thing", "another thing")
    assert len(places(await world.gateway.searches.find("thing"))) == 2
    await world.stop()
    await harm(world)
    await world.start()
    await world.gateway.record.write(heard, "s", "third thing")
    for _ in range(3):  # a harm that shows only in a page that is read later
        found = await world.gateway.searches.find("thing")
        if len(found["hits"]) == 3:
            break
    assert places(found) == [("s", 3), ("s", 2), ("s", 1)]


async def test_an_index_that_is_removed_under_a_running_gateway_is_made_anew(world: World) -> None:
    await world.gateway.record.write(heard, "s", "one thing")
    assert places(await world.gateway.searches.find("thing"))
    for end in ("", "-wal", "-shm"):
        Path(f"{world.gateway.searches.path}{end}").unlink(missing_ok=True)
    await world.gateway.record.write(heard, "s", "another thing")
    assert places(await world.gateway.searches.find("thing")) == [("s", 2), ("s", 1)]
    assert world.gateway.searches.path.exists()


async def test_a_restored_older_ledger_is_followed_from_where_it_is(world: World) -> None:
    await world.gateway.record.write(heard, "s", "kept")
    await world.stop()
    with Store.open_sync(world.settings.ledger) as store:
        store.statistics()
    saved = world.settings.ledger.read_bytes()
    await world.start()
    await world.gateway.record.write(heard, "s", "lost one", "lost two", "lost three")
    assert len(places(await world.gateway.searches.find("lost"))) == 3
    await world.stop()
    for end in ("-wal", "-shm"):
        Path(f"{world.settings.ledger}{end}").unlink(missing_ok=True)
    world.settings.ledger.write_bytes(saved)
    await world.start()
    assert places(await world.gateway.searches.find("lost")) == []
    assert places(await world.gateway.searches.find("kept")) == [("s", 1)]


async def test_a_full_disk_under_the_index_stops_only_searching(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.gateway.record.write(heard, "s", "before")
    assert places(await world.gateway.searches.find("before"))
    index = world.gateway.searches._index
    assert index is not None

    def small(index: Index) -> None:
        db = index._connection()
        db.execute(f"PRAGMA max_page_count = {db.pragma('page_count')}")

    await world.gateway.searches._on_index(small)
    monkeypatch.setattr(Index, "_open", _on_a_small_disk(Index._open))
    await world.gateway.record.write(
        heard, "s", *(f"flood{n} " + " ".join(f"w{n}x{i}" for i in range(300)) for n in range(60))
    )
    with pytest.raises(GatewayUnavailable, match=r"search index .* cannot be used .* Free some space"):
        await world.gateway.searches.find("flood1")
    await world.gateway.record.write(heard, "s", "the ledger goes on")
    assert await world.ask("say: and so do turns") == ["and so do turns"]
    monkeypatch.undo()
    assert places(await world.gateway.searches.find('"ledger goes on"')) == [("s", 62)]


def _on_a_small_disk(opened: Any) -> Any:
    def _open(index: Index) -> bool:
        fresh = bool(opened(index))
        assert index._db is not None
        index._db.execute(f"PRAGMA max_page_count = {index._db.pragma('page_count')}")
        return fresh

    return _open


async def test_no_message_waits_for_an_index_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "ledger.db-search").mkdir()
    async with World(tmp_path) as world:
        assert await world.ask("say: fine") == ["fine"]
        with pytest.raises(GatewayUnavailable, match="search index"):
            await world.gateway.searches.find("fine")


def test_a_new_index_says_so_once_and_then_works(tmp_path: Path) -> None:
    index = Index(tmp_path / "x-search", "one")
    with pytest.raises(IndexReset):
        index.revs()
    assert index.revs() == {}
    index.close()
    assert Index(tmp_path / "x-search", "one").revs() == {}
    with pytest.raises(IndexReset, match=r"belongs to another ledger .* and is rebuilt") as reset:
        Index(tmp_path / "x-search", "two").revs()
    assert reset.value.level == logging.INFO
    with pytest.raises(IndexFailed, match="cannot be used"):
        Index(tmp_path / "nowhere" / "x-search", "one").revs()


KILLED = """
import asyncio, sys
sys.path[:0] = {paths!r}
from pathlib import Path
from gateway_world import World
from test_search import heard
from semel.gateway.api import search
search.INDEX_DELAY_S = 0.0

async def main():
    world = World(Path({path!r}))
    await world.start()
    for n in range(10_000):
        await world.gateway.record.write(heard, f"s{{n % 7}}", f"message number{{n}} of all")
        if n % 20 == 0:
            print(n, world.gateway.searches.behind, flush=True)

asyncio.run(main())
"""


def run_and_kill(code: str, at: int) -> None:
    """Kill it once it has said so many."""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if re.match(r"\d+ ", line) and int(line.split()[0]) >= at:
            break
    child.send_signal(signal.SIGKILL)
    child.wait(20)
    child.stdout.close()


@pytest.mark.long
async def test_a_gateway_killed_while_it_fills_the_index_finds_everything_after_its_next_start(tmp_path: Path) -> None:
    here = Path(__file__).parent
    for round in range(3):
        code = KILLED.format(paths=[str(here), str(here.parent / "gateway")], path=str(tmp_path))
        run_and_kill(code, 40 + 20 * round)
    async with World(tmp_path) as world:
        while not (found := await world.gateway.searches.find("all", limit=1))["index"]["current"]:
            pass
        entries = [e for s in await world.gateway.sessions() for e in (await world.gateway.entries(s["key"]))[0]]
        seen, after = 0, None
        while True:
            found = await world.gateway.searches.find("all", limit=100, after=after)
            seen, after = seen + len(found["hits"]), found["next"]
            if after is None:
                break
        assert seen == len(entries) >= 120


# ---------------------------------------------------------------- what it costs


async def test_hearing_stays_one_commit_and_indexing_and_searching_write_nothing_to_the_ledger(world: World) -> None:
    await world.gateway.searches.find("nothing")
    for n in range(5):
        before = world.gateway.store.statistics()["commits"]
        await world.gateway.report("s", "note", f"number {n}", wakes=False)
        assert world.gateway.store.statistics()["commits"] - before == 1
        assert len((await world.gateway.searches.find("number"))["hits"]) == n + 1
        assert world.gateway.store.statistics()["commits"] - before == 1


async def test_a_turn_does_not_wait_for_an_index_that_never_answers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("index_page", "rev", "revs", "find"):
        monkeypatch.setattr(Index, name, _never)
    assert await world.ask("say: one") == ["one"]
    with pytest.raises(GatewayUnavailable):
        await world.gateway.searches.find("one")


def _never(*_: object) -> None:
    raise IndexFailed("the index cannot be used")


def test_no_statement_of_the_index_walks_a_table_without_saying_why(tmp_path: Path) -> None:
    db = apsw.Connection(":memory:")
    db.execute(index_module._read_resource("schema.sql"))
    for query in index_statements().values():
        nothing = dict.fromkeys(query.parameters)
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query.sql}", nothing)]
        for line in plan:
            walks = line.startswith("SCAN") and "VIRTUAL TABLE" not in line and "session" not in line
            assert not walks or "scans:" in query.purpose, (query.name, line)
            assert "TEMP B-TREE" not in line or "sorts:" in query.purpose, (query.name, line)


def test_the_index_is_not_opened_by_the_ledgers_own_threads() -> None:
    """The writer and the readers know nothing of it: only the gateway's search does."""
    source = Path(index_module.__file__).parent
    assert [p.name for p in source.parent.glob("*.py") if "searching" in p.read_text()] == []
