"""What a ledger that was put back does, and what it leaves to people (Law 14)."""

from __future__ import annotations

from pathlib import Path

import pytest
from outbox_desk import Desk, say

from semel.gateway.ports import Safety
from semel.ledger.admin import books, overview
from semel.ledger.backup import settle_restored
from semel.ledger.backup.snapshot import take_snapshot
from semel.ledger.delivery import parts, placeholders
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.claims import say as speak
from semel.ledger.delivery.cutting import Leg
from semel.ledger.inbound.hear import Addressee, Event, hear
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries, views
from semel.ledger.turns import interventions, turns
from semel.ledger.turns.interventions import StopTarget
from semel.ledger.turns.turns import EntryToTellRow
from semel.ledger.turns.withdrawals import free_session
from semel.testing import FakeChannel, Fault, FrozenClock, Platform

CLASSES = list(Safety)


def copy_of(path: Path, target: Path, clock: FrozenClock) -> None:
    """A copy as `semel backup` makes it."""
    take_snapshot(path, target, clock.now)


def settled(path: Path, clock: FrozenClock) -> settle_restored.SettledRestore:
    with Store.open_sync(path, clock=clock.now) as store:
        done = store.write_sync(settle_restored.settle_copy)
        assert done is not None
        assert store.write_sync(settle_restored.settle_copy) is None, "it is settled once"
        assert [b.name for b in store.read_sync(books.audit) if not b.ok] == []
    return done


@pytest.mark.parametrize("safety", CLASSES, ids=str)
@pytest.mark.parametrize("left_since", [True, False], ids=["left since", "did not leave"])
async def test_what_was_in_line_at_the_copy_is_given_to_a_person_once_or_held(
    tmp_path: Path, safety: Safety, left_since: bool
) -> None:
    platform = Platform(folds=safety is Safety.IDEMPOTENT)
    clock = FrozenClock()
    live, copy = tmp_path / "live.db", tmp_path / "copy.db"
    with Store.open_sync(live, clock=clock.now) as store:
        ids = store.write_sync(say, "hook:room", ["one", "two"])
    copy_of(live, copy, clock)
    if left_since:
        async with Desk(live, FakeChannel("hook", safety, platform), clock=clock) as desk:
            await desk.pass_time(60)
            assert await desk.states(ids) == ["sent", "sent"]
    await clock.advance(120)
    assert settled(copy, clock).parts == 2
    async with Desk(copy, FakeChannel("hook", safety, platform), clock=clock) as desk:
        await desk.pass_time(60)
        states = await desk.states(ids)
        held = safety is Safety.AT_MOST_ONCE
        assert states == (["held", "held"] if held else ["sent", "sent"])
    shown = platform.shown("room")
    assert shown == ([] if held and not left_since else ["one", "two"])


async def test_a_key_whose_life_is_over_is_not_used_again(tmp_path: Path) -> None:
    platform, clock = Platform(folds=True), FrozenClock()
    live, copy = tmp_path / "live.db", tmp_path / "copy.db"
    with Store.open_sync(live, clock=clock.now) as store:
        ids = store.write_sync(say, "hook:room", ["one"])
    copy_of(live, copy, clock)
    await clock.advance(3500)  # of 3600
    settled(copy, clock)
    async with Desk(copy, FakeChannel("hook", Safety.IDEMPOTENT, platform), clock=clock) as desk:
        await desk.pass_time(60)
        assert await desk.states(ids) == ["held"]
    assert platform.log == []


@pytest.mark.parametrize("safety", CLASSES, ids=str)
@pytest.mark.parametrize("left_since", [True, False], ids=["left since", "did not leave"])
async def test_a_text_that_fills_a_reserved_message_is_not_posted_beside_it(
    tmp_path: Path, safety: Safety, left_since: bool
) -> None:
    platform, clock = Platform(folds=safety is Safety.IDEMPOTENT), FrozenClock()
    live, copy = tmp_path / "live.db", tmp_path / "copy.db"

    def answer(tx: Tx) -> None:
        session = tx.number("session_add", key="main:x", agent="main", home="hook:room", at=tx.now)
        hear(tx, Event("api:main:x", "k", "message", "hello?", b"1"), [Addressee("main:x", "main", "hook:room")])
        begun = turns.begin(tx, session, "lease")
        assert isinstance(begun, turns.BegunTurn)
        op = {"kind": "post", "session": "main:x", "address": "room", "text": "the answer"}
        placeholders.ensure_placeholder(tx, session, begun.turn, begun.root, "hook:room", op)
        caller = Caller(session, "main:x", begun.turn, begun.root)
        leg = Leg(0, 10, "hook", "hook:room", {**op, "fill": True})
        made = speak(tx, caller, ClaimRequest("block", "the answer", "hook:room", legs=(leg,)))
        seen = {"evidence": "said", "row": made.claim_id, "tokens": None, "cost": None}
        tx.run("turn_end", id=begun.turn, state="done", stop=None, error=None, at=tx.now, **seen)
        free_session(tx, tx.get(SessionRow, "session_by_id", id=session), begun.turn)

    with Store.open_sync(live, clock=clock.now) as store:
        store.write_sync(answer)
    copy_of(live, copy, clock)
    if left_since:
        async with Desk(live, FakeChannel("hook", safety, platform), clock=clock) as desk:
            await desk.pass_time(60)
    await clock.advance(120)
    settled(copy, clock)
    async with Desk(copy, FakeChannel("hook", safety, platform), clock=clock) as desk:
        await desk.pass_time(60)
        fill = (await desk.store.read(parts.list_newest))[1]
        assert fill["text"] == "the answer"
        assert fill["state"] == ("held" if safety is Safety.AT_MOST_ONCE else "sent")
    assert "the answer" not in platform.shown("room"), "it is an edit of what was reserved, and never a second message"


def test_what_ran_or_waited_is_over_and_nobody_is_asked_again(tmp_path: Path) -> None:
    clock = FrozenClock()
    with Store.open_sync(tmp_path / "l.db", clock=clock.now) as store:

        def live(tx: Tx) -> None:
            to = Addressee("main:x", "main", "hook:room")
            hear(tx, Event("api:x", "1", "message", "first", b"1"), [to])
            begun = turns.begin(tx, 1, "lease")
            assert isinstance(begun, turns.BegunTurn)
            tx.run("session_set_memory", id=1, memory="agent-session-7")
            entries.add_entry(tx, 1, role="agent", text="Let me see", turn=begun.turn, live=True)
            hear(tx, Event("api:x", "2", "message", "second", b"2"), [to])
            hear(tx, Event("api:x", "3", "command", "/status", b"3", command=("status", "")), [to])

        store.write_sync(live)
    copy_of(tmp_path / "l.db", tmp_path / "copy.db", clock)
    done = settled(tmp_path / "copy.db", clock)
    assert (done.unanswered, done.incarnation) == (3, 2)
    with Store.open_sync(tmp_path / "copy.db") as store:

        def look(tx: Tx) -> None:
            row = tx.one(SessionRow, "session_by_id", id=1)
            assert (row.turn, row.wake_at, row.memory) == (None, None, None)
            told, _ = views.read_entries(tx, 1, 0, 100)
            told.sort(key=lambda e: e["seq"])
            assert [e["text"] for e in told][:4] == ["first", "Let me see", "second", "/status"]
            assert told[1]["partial"]
            assert "3 requests may have been answered already" in told[4]["text"]
            assert len(told) == 5
            assert told[4]["delivery"][0]["to"] == "hook:room"
            assert turns.begin(tx, 1, "next") is None
            assert len(tx.all(EntryToTellRow, "entries_to_tell", session=1)) == 2, "the agent is told, too"
            assert overview.list_failing_agents(tx) == [], "it is not the agent's failure"

        store.read_sync(look)


async def test_each_home_is_told_once_and_old_conversations_only_in_the_record(tmp_path: Path) -> None:
    clock = FrozenClock()
    with Store.open_sync(tmp_path / "l.db", clock=clock.now) as store:

        def talk(tx: Tx, names: list[str], home: str | None) -> None:
            for name in names:
                to = Addressee(name, "main", f"hook:{home or name}")
                hear(tx, Event("api:x", name, "reaction", "+", name.encode(), wakes=False), [to])

        store.write_sync(talk, ["old"], None)
        await clock.advance(8 * 24 * 3600)
        store.write_sync(talk, ["a", "b"], "shared")
        store.write_sync(talk, ["c"], None)
    copy_of(tmp_path / "l.db", tmp_path / "copy.db", clock)
    settled(tmp_path / "copy.db", clock)
    with Store.open_sync(tmp_path / "copy.db") as store:
        dests = sorted(p["dest"] for p in store.read_sync(parts.list_newest))
        assert dests == ["hook:c", "hook:shared"]
        texts = [e.text for e in store.read_sync(lambda tx: tx.all(EntryToTellRow, "entries_to_tell", session=1))]
        assert len(texts) == 1
        assert "was restored to its state" in texts[0]


def test_a_watcher_of_before_gets_a_snapshot_and_never_a_mixture(tmp_path: Path) -> None:
    clock = FrozenClock()
    with Store.open_sync(tmp_path / "l.db", clock=clock.now) as store:
        store.write_sync(say, "hook:room", ["one"])
        before = store.read_sync(lambda tx: tx.one(SessionRow, "session_by_id", id=1).rev)
    copy_of(tmp_path / "l.db", tmp_path / "copy.db", clock)
    settled(tmp_path / "copy.db", clock)
    with Store.open_sync(tmp_path / "copy.db") as store:
        assert store.read_sync(views.read_changes, 1, before) is None
        assert store.read_sync(views.read_changes, 1, before + 3) is None
        now = store.read_sync(lambda tx: tx.one(SessionRow, "session_by_id", id=1).rev)
        assert store.read_sync(views.read_changes, 1, now) == (now, [])
        new = store.write_sync(lambda tx: tx.number("session_add", key="n", agent="a", home=None, at=1))
        assert store.read_sync(lambda tx: tx.one(SessionRow, "session_by_id", id=new).rev) >> views.LIFE_BITS == 1


def test_a_stop_of_a_turn_that_was_seen_before_the_restore_stops_no_other_with_its_id(tmp_path: Path) -> None:
    clock = FrozenClock()

    def take_turn(tx: Tx, text: str) -> turns.BegunTurn:
        hear(tx, Event("api:x", text, "message", text, text.encode()), [Addressee("s", "main", None)])
        begun = turns.begin(tx, 1, "lease")
        assert isinstance(begun, turns.BegunTurn)
        return begun

    with Store.open_sync(tmp_path / "l.db", clock=clock.now) as store:
        store.write_sync(hear, Event("api:x", "0", "reaction", "+", b"+", wakes=False), [Addressee("s", "main", None)])
        copy_of(tmp_path / "l.db", tmp_path / "copy.db", clock)
        lost = store.write_sync(take_turn, "lost")
        seen = store.read_sync(lambda tx: tx.get(SessionRow, "session_by_id", id=1).rev)
        assert store.read_sync(interventions.find_stop_target, 1, lost.turn, seen) == StopTarget(lost.root)
    settled(tmp_path / "copy.db", clock)
    with Store.open_sync(tmp_path / "copy.db", clock=clock.now) as store:
        other = store.write_sync(take_turn, "other")
        assert (other.session, other.turn) == (lost.session, lost.turn)
        assert store.read_sync(interventions.find_stop_target, 1, lost.turn, seen) == StopTarget()
        seen = store.read_sync(lambda tx: tx.get(SessionRow, "session_by_id", id=1).rev)
        assert store.read_sync(interventions.find_stop_target, 1, other.turn, seen) == StopTarget(other.root)
        assert store.read_sync(interventions.find_stop_target, 1, other.turn) == StopTarget(other.root)


async def test_a_held_part_stays_held_and_a_resend_of_it_is_marked(tmp_path: Path) -> None:
    platform, clock = Platform(), FrozenClock()
    platform.fail_next(Fault.DROP)
    live, copy = tmp_path / "live.db", tmp_path / "copy.db"
    async with Desk(live, FakeChannel("hook", Safety.AT_MOST_ONCE, platform), clock=clock) as desk:
        (part,) = await desk.say("hook:room", "one")
        await desk.quiet()
        assert await desk.states([part]) == ["held"]
    copy_of(live, copy, clock)
    settled(copy, clock)
    async with Desk(copy, FakeChannel("hook", Safety.AT_MOST_ONCE, platform), clock=clock) as desk:
        await desk.quiet()
        assert await desk.states([part]) == ["held"]
        await desk.decide(part, "resend")
        await desk.quiet()
    assert [(post.text, post.marked) for post in platform.log] == [("one", False), ("one", True)]
