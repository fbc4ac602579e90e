"""Live views of a store with threads: what watchers are sent is what is recorded, however tasks interleave (Law 8)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest

from semel.faces.view import SessionView
from semel.gateway import record as record_module
from semel.gateway.api.reads import ReadApi
from semel.gateway.record import Hub, LedgerAccess
from semel.law.delivery import Rules
from semel.ledger.admin import books
from semel.ledger.delivery import send_queue
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.cutting import Leg
from semel.ledger.delivery.send_queue import AttemptOutcome, ChannelCapacity
from semel.ledger.inbound import hear
from semel.ledger.sqlite.store import Store
from semel.ledger.transcript import views
from semel.ledger.turns import finish_turn, show, turn_ops, turns

Json = dict[str, Any]
KEYS = ("a", "b", "c")
RULES = Rules("at-most-once")
END = "the end"


class House(ReadApi):
    """The reading half of a gateway, over a real store, and tasks that write as its rooms do."""

    def __init__(self, path: Path) -> None:
        self.store = Store.open(path)
        self.hub = Hub()
        self.record = LedgerAccess(self.store, self.hub)
        self.published: dict[int, list[int]] = {}
        publish = self.hub.publish

        def noted(changes: list[tuple[int, Json]], unseen: Collection[int] = ()) -> None:
            for session, change in changes:
                self.published.setdefault(session, []).append(change["rev"])
            publish(changes, unseen)

        self.hub.publish = noted  # type: ignore[method-assign, assignment]

    async def hear(self, key: str, text: str) -> int:
        event = hear.Event("api", None, "message", text, text.encode())
        done = await self.record.write(hear.hear, event, [hear.Addressee(key, "main", f"chat:{key}")])
        return done.woken_sessions[0]

    async def turn(self, key: str, dice: random.Random, lease: str) -> None:
        """One message and the turn over it, streamed in small batches."""
        session = await self.hear(key, f"question {dice.random()}")
        begun = await self.record.write(turns.begin, session, lease)
        if not isinstance(begun, turns.BegunTurn):
            return  # another task's turn will take it, or the next one
        fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
        caller = Caller(session, key, begun.turn, begun.root)
        slots, text = turn_ops.Slots(), ""
        slots = await self.record.write(show.show, fence, caller, [turn_ops.ItemOpen(2, "tool", body={})], slots)
        for n in range(dice.randrange(2, 12)):
            piece = f"{dice.randrange(10**6)} "
            text += piece
            ops = [turn_ops.Preview(1, piece), turn_ops.ItemGrow(2, piece, output=piece)]
            if n % 5 == 4:
                text = "again: "
                ops = [turn_ops.Replace(1, text), turn_ops.ItemSet(2, {"gap": n}, text=piece, output=piece)]
            slots = await self.record.write(show.show, fence, caller, ops, slots)
        dest = f"chat:{key}"
        leg = Leg(0, len(text), "chat", dest, {"kind": "post", "text": text})
        ops = [turn_ops.Block(1, (ClaimRequest("block", text, dest, legs=(leg,)),))]
        await self.record.write(finish_turn.finish, fence, caller, ops, slots, finish_turn.End("answered", "end_turn"))

    async def send(self) -> None:
        done = await self.record.write(send_queue.depart, {"chat": ChannelCapacity(RULES, 2)})
        for one in done.sends:
            outcome = AttemptOutcome("receipt", receipt=f"r{one.part}")
            await self.record.write(send_queue.record_outcome, one.part, outcome, RULES)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path / "ledger.db")
    yield house
    await asyncio.to_thread(house.store.close)


async def follow(house: House, key: str, view: SessionView, leave: random.Random | None = None) -> None:
    """Watch until the end is heard and nothing is missing; with `leave`, go away and come back with the rev."""
    while True:
        watch = house.watch(key, view.rev)
        stay = leave.randrange(1, 6) if leave is not None else 1 << 30
        try:
            async for message in watch:
                view.apply(message)
                stay -= 1
                if stay <= 0 or await current(house, key, view):
                    break
        finally:
            await watch.aclose()
        if await current(house, key, view):
            return
        await asyncio.sleep(0)


async def current(house: House, key: str, view: SessionView) -> bool:
    if not any(e["text"] == END for e in view.entries.values()):
        return False
    row = await house.record.read(views.find_session, key)
    return row is not None and view.rev == row.rev


async def truth(house: House, key: str) -> Json:
    return await house.record.read(lambda tx: views.read_snapshot(tx, views.find_session(tx, key).id, 1 << 40))


def assert_same(view: SessionView, snapshot: Json) -> None:
    assert view.rev == snapshot["rev"]
    assert [view.entries[n] for n in sorted(view.entries)] == snapshot["entries"]
    assert [view.items[n] for n in sorted(view.items)] == sorted(snapshot["items"], key=lambda i: i["id"])
    assert {k: v for k, v in view.session.items() if v is not None} == {
        k: v for k, v in snapshot["session"].items() if v is not None
    }


@pytest.mark.parametrize(("seed", "pending"), [(1, 2000), (2, 3), (3, 40)])
async def test_eight_tasks_and_every_watcher_sees_what_is_recorded(
    house: House, monkeypatch: pytest.MonkeyPatch, seed: int, pending: int
) -> None:
    """With `pending` small, watchers lag again and again and are caught up from the ledger."""
    monkeypatch.setattr(record_module, "MAX_PENDING_CHANGES", pending)
    monkeypatch.setattr("semel.gateway.api.reads.FRAME_INTERVAL_S", 0.002)
    for key in KEYS:
        await house.hear(key, "hello")
    watching = []
    for key in KEYS:
        for leave in (None, None, random.Random(seed), random.Random(seed + 7)):
            view = SessionView()
            watching.append((key, view, asyncio.create_task(follow(house, key, view, leave))))

    async def work(n: int) -> None:
        dice = random.Random(seed * 100 + n)
        for _ in range(6):
            await house.turn(dice.choice(KEYS), dice, "g0")
            if dice.random() < 0.4:
                await house.send()

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(n) for n in range(8)))
        for key in KEYS:
            await house.hear(key, END)
        await asyncio.gather(*(task for _, _, task in watching))
    for key, view, _ in watching:
        assert_same(view, await truth(house, key))
    for revs in house.published.values():
        assert revs == sorted(set(revs)), "changes were published in another order than they were committed in"
    assert all(book.ok for book in await house.record.read(books.audit))


async def test_a_watcher_that_joins_while_text_streams_is_not_sent_a_piece_twice(house: House) -> None:
    """What was published between joining and the first look is in the snapshot already."""
    session = await house.hear("a", "hi")
    begun = await house.record.write(turns.begin, session, "g0")
    assert isinstance(begun, turns.BegunTurn)
    fence, caller = turns.TurnFence(session, begun.turn, begun.epoch), Caller(session, "a", begun.turn, begun.root)
    slots = turn_ops.Slots()

    async def stream(text: str) -> None:
        nonlocal slots
        slots = await house.record.write(show.show, fence, caller, [turn_ops.Preview(1, text)], slots)

    await stream("one ")
    read = house.record.read

    async def slow(body: Any, *args: Any, **kwargs: Any) -> Any:
        if body is views.read_snapshot:
            await stream("two ")  # committed and published before the snapshot is taken
        return await read(body, *args, **kwargs)

    house.record.read = slow  # type: ignore[method-assign, assignment]
    view, watch = SessionView(), house.watch("a")
    view.apply(await anext(watch))
    await stream("three ")
    view.apply(await anext(watch))
    assert view.entries[2]["text"] == "one two three "
    await watch.aclose()


async def test_a_lagging_watcher_costs_the_turn_nothing_and_is_caught_up_exactly(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_module, "MAX_PENDING_CHANGES", 10)
    await house.hear("a", "hi")
    view, watch = SessionView(), house.watch("a")
    view.apply(await anext(watch))
    for n in range(40):
        await house.hear("a", f"message {n}")
    (watcher,) = house.hub._watchers[1]
    assert watcher.lagged
    assert len(watcher.pending) <= 10
    view.apply(await anext(watch))
    assert_same(view, await truth(house, "a"))
    await watch.aclose()
    assert house.hub.count == 0


async def test_a_watcher_from_another_ledger_is_given_a_snapshot(house: House) -> None:
    """A rev that was never reached here: the file was replaced by an older copy."""
    await house.hear("a", "hi")
    watch = house.watch("a", 10**6)
    first = await anext(watch)
    assert first["type"] == "snapshot"
    assert first["rev"] < 10**6
    await watch.aclose()


async def test_who_comes_to_watch_between_a_change_and_its_commit_is_sent_it(tmp_path: Path) -> None:
    """Nobody watched while it was written, so it was not rendered: the ledger tells it."""
    house = House(tmp_path / "ledger.db")
    session = await house.hear("a", "first")
    publish, views, told = house.hub.publish, [], asyncio.Event()

    async def watch() -> None:
        async for one in house.watch("a", None):
            views.append(one)
            told.set()

    def overtaken(changes: list[tuple[int, Json]], unseen: Collection[int] = ()) -> None:
        assert (changes, unseen) == ([], {session})
        late = house.hub.join(session)
        publish(changes, unseen)
        assert late.lagged and late.ready.is_set()
        house.hub.leave(session, late)

    house.hub.publish = overtaken  # type: ignore[method-assign, assignment]
    await house.hear("a", "second")
    house.hub.publish = publish  # type: ignore[method-assign]
    watching = asyncio.create_task(watch())
    await asyncio.wait_for(told.wait(), 10)
    told.clear()
    for watcher in house.hub._watchers[session]:
        watcher.lag()  # of something that its snapshot held: it is sent nothing twice
    await house.hear("a", "third")
    await asyncio.wait_for(told.wait(), 10)
    watching.cancel()
    assert [e["text"] for e in views[0]["entries"]] == ["first", "second"]
    assert [c["text"] for one in views[1:] for c in one["changes"] if c["op"] == "entry"] == ["third"]
    house.store.close()
