"""A watcher that comes back to a snapshot instead of the changes since: it finds out by itself what is new."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "http"))

from gateway_house import GatewayHouse, Script, world

from semel import (
    Entry,
    EntryUpdate,
    ItemUpdate,
    NoGateway,
    SessionGone,
    SessionListChanges,
    SessionListed,
    SessionListSnapshot,
    SessionUpdate,
)
from semel.faces.client.watch import Update, watch_list, watch_session

__all__ = ["world"]
Json = dict[str, Any]


class InProcess:
    """Stands for a connection to a gateway in this process. Its streams end when `breaks` is set, behind a frame."""

    def __init__(self, house: GatewayHouse):
        self.gateway = house.gateway
        self.breaks = False
        self.breaks_while_it_reads = False
        self.streams: list[int | None] = []  # the rev after which each was asked for

    async def stream(self, session: str, after: int | None = None) -> AsyncIterator[Json]:
        self.streams.append(after)
        async for frame in self.gateway.watch(session, after):
            yield frame
            if self.breaks:
                self.breaks = False
                return

    async def stream_list(self, after: int | None = None) -> AsyncIterator[Json]:
        self.streams.append(after)
        async for frame in self.gateway.watch_list(after):
            yield frame
            if self.breaks and frame.get("changes") != []:
                self.breaks = False
                return

    async def list_all(self, path: str, name: str, after: int) -> list[Json]:
        assert (path, name) == ("/v1/sessions/s/entries", "entries")
        return (await self.gateway.entries("s", after, 1 << 30))[0]

    async def get(self, path: str, after: int) -> Json:
        assert path == "/v1/sessions/s/history"
        if self.breaks_while_it_reads:
            self.breaks_while_it_reads = False
            raise NoGateway(Path("data"))
        return await self.gateway.history("s", after, 100)


class Seen:
    """What a program has of the session."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.items: dict[int, Any] = {}
        self.updates: list[Update] = []

    def take(self, update: Update) -> None:
        self.updates.append(update)
        if isinstance(update, EntryUpdate):
            assert self.entries.get(update.entry.seq) != update.entry, "it came twice"
            self.entries[update.entry.seq] = update.entry
            if update.removed:
                del self.entries[update.entry.seq]
        elif isinstance(update, ItemUpdate):
            assert self.items.get(update.item.id) != update.item, "it came twice"
            self.items[update.item.id] = update.item


async def see_until(watch: AsyncIterator[Update], seen: Seen, text: str) -> None:
    async for update in watch:
        seen.take(update)
        if any(entry.text == text for entry in seen.entries.values()) and isinstance(update, SessionUpdate):
            return


@pytest.fixture
async def script(world: GatewayHouse) -> Script:
    script = await world.script("s")
    await script.entries([("user", f"old {n}", {}) for n in range(300)])
    return script


async def change_much(script: Script) -> None:
    """More than the gateway sends as changes: new entries with an item among them, and an old entry that changed."""
    await script.set(3, edited=5)
    await script.entries([("user", f"new {n}", {}) for n in range(600)])
    await script.item("tool", "output", title="make", status="done")
    await script.entries([("user", f"newer {n}", {}) for n in range(600)])
    await script.entry("agent", "the end")
    await script.entitle("another title")


@pytest.mark.parametrize("is_new_life", [False, True])
async def test_a_snapshot_after_a_break_yields_all_that_changed_and_nothing_else(
    world: GatewayHouse, script: Script, is_new_life: bool
) -> None:
    connection, seen = InProcess(world), Seen()
    watch: AsyncIterator[Update] = watch_session(connection, "s", None, None)  # type: ignore[arg-type]
    connection.breaks = True
    await see_until(watch, seen, "old 299")
    rev = seen.updates[-1].rev
    assert rev is not None and len(seen.entries) == 200
    before = len(seen.updates)
    await change_much(script)
    if is_new_life:
        watch = watch_session(connection, "s", rev, None)  # type: ignore[arg-type]
    connection.breaks_while_it_reads = True
    await see_until(watch, seen, "the end")
    recorded = {entry["seq"]: entry["text"] for entry in (await world.gateway.entries("s", 0, 1 << 30))[0]}
    changed = {seq for seq in recorded if seq > 300 or seq == 3}
    assert {u.entry.seq for u in seen.updates[before:] if isinstance(u, EntryUpdate)} == changed
    assert [u.item.kind for u in seen.updates[before:] if isinstance(u, ItemUpdate)] == ["tool"]
    assert all(seen.entries[seq].text == recorded[seq] for seq in changed)
    assert seen.entries[3].edited == 5
    assert connection.streams == [None, *[None if is_new_life else rev] * 2]


async def test_the_list_of_sessions_goes_on_where_its_connection_broke(world: GatewayHouse) -> None:
    connection = InProcess(world)
    await Script(world.gateway, "a").entry("user", "hi")
    watch = watch_list(connection, None, None)  # type: ignore[arg-type]
    snapshot = await anext(watch)
    assert isinstance(snapshot, SessionListSnapshot) and [row.key for row in snapshot.sessions] == ["a"]
    connection.breaks = True
    script = Script(world.gateway, "b")
    await script.entry("agent", "news")
    unread = 0
    while not unread:
        changes = await anext(watch)
        assert isinstance(changes, SessionListChanges)
        [unread] = [row.unread for row in changes.changes if isinstance(row, SessionListed) and row.key == "b"]
    await world.gateway.delete("a")
    gone = await anext(watch)
    assert isinstance(gone, SessionListChanges) and SessionGone("a") in gone.changes
    assert connection.streams == [None, snapshot.rev]
    world.gateway.hub.lag_all()
    assert isinstance(await anext(watch), SessionListSnapshot)
    await watch.aclose()
