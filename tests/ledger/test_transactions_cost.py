"""Law 11 measured: what a message costs in SQL does not grow with history, sessions, or the age of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apsw
import pytest

from semel.law.delivery import Rules
from semel.ledger.admin import explain
from semel.ledger.delivery import send_queue
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.cutting import Leg
from semel.ledger.delivery.send_queue import AttemptOutcome, ChannelCapacity
from semel.ledger.inbound import answers, hear
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import views
from semel.ledger.turns import finish_turn, history, show, spawns, tool_calls, turn_ops, turns

HOME = "chat:1"
RULES = Rules("at-most-once")


@dataclass
class Meter:
    """Counts statements and steps of SQLite's machine (https://sqlite.org/c3ref/c_stmtstatus_counter.html)."""

    db: apsw.Connection
    statements: int = 0
    steps: int = 0
    costs: dict[str, tuple[int, int]] = field(default_factory=dict)

    def _count(self, event: dict[str, Any]) -> None:
        self.statements += 1
        self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def run(self, name: str, body: Callable[..., Any], *args: Any) -> Any:
        self.statements = self.steps = 0
        self.db.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)
        try:
            return body(*args)
        finally:
            self.db.trace_v2(0, None)
            self.costs[name] = self.statements, self.steps


def one_turn(tx: Tx, n: int, key: str = "s") -> None:
    """A message, its turn with a tool call and a closing text, and its parts sent."""
    session = hear.hear(tx, event(n), [hear.Addressee(key, "main", HOME)]).woken_sessions[0]
    begun = turns.begin(tx, session, "g0")
    assert isinstance(begun, turns.BegunTurn)
    fence, caller = turns.TurnFence(session, begun.turn, begun.epoch), Caller(session, key, begun.turn, begun.root)
    slots = show.show(
        tx, fence, caller, [turn_ops.ItemOpen(1, "tool", body={}), turn_ops.Preview(2, "answer")], turn_ops.Slots()
    )
    text = f"answer {n}"
    block = turn_ops.Block(2, (ClaimRequest("block", text, HOME),))
    finish_turn.finish(
        tx, fence, caller, [block], slots, finish_turn.End("answered", "end_turn", closing=2, legs=(leg(text),))
    )
    for one in send_queue.depart(tx, {"chat": ChannelCapacity(RULES, 9)}).sends:
        send_queue.record_outcome(tx, one.part, AttemptOutcome("receipt", receipt=f"r{one.part}"), RULES)


def event(n: int, wakes: bool = True) -> hear.Event:
    return hear.Event("api", f"m{n}", "message", f"question {n}", b"d%d" % n, wakes=wakes)


def leg(text: str) -> Leg:
    return Leg(0, len(text), "chat", HOME, {"kind": "post", "text": text})


def measure(store: Store, rev: int) -> dict[str, tuple[int, int]]:
    """One more message through every transaction."""
    meter = Meter(store._require_committer()._db)

    def seen(tx: Tx, body: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        result = body(tx, *args)
        views.render_changes(tx)
        return result

    def do(name: str, body: Callable[..., Any], *args: Any) -> Any:
        return meter.run(name, store.write_sync, seen, body, args)

    def look(name: str, body: Callable[..., Any], *args: Any) -> Any:
        return meter.run(name, store.read_sync, body, *args)

    session = do("hear", hear.hear, event(10**6), [hear.Addressee("s", "main", HOME)]).woken_sessions[0]
    do("hear again", hear.hear, event(10**6), [hear.Addressee("s", "main", HOME)])
    do("hear a bystander", hear.hear, event(10**6 + 1, False), [hear.Addressee("s", "main", HOME)])
    spawn = do("spawn", spawns.record_start, session, "main", "g0", b"token")
    begun = do("begin", turns.begin, session, "g0", spawn)
    fence, caller = turns.TurnFence(session, begun.turn, begun.epoch), Caller(session, "s", begun.turn, begun.root)
    ops = [turn_ops.ItemOpen(1, "tool", body={}), turn_ops.ItemGrow(1, "out", "out"), turn_ops.Preview(2, "answer")]
    slots = do("show", show.show, fence, caller, ops, turn_ops.Slots())
    slots = do("show on", show.show, fence, caller, [turn_ops.Preview(2, " goes on")], slots)
    call = tool_calls.ToolCallRequest(b"token", "c", "k1", b"args")
    do("call", tool_calls.record_call, call, ClaimRequest("tool", "by tool", HOME, legs=(leg("by tool"),)))
    do("call again", tool_calls.record_call, call, ClaimRequest("tool", "by tool", HOME, legs=(leg("by tool"),)))
    item = slots.items[1]
    do("answer", answers.record_answer, session, item, "yes", "me", b"d")
    text = "answer goes on"
    block = turn_ops.Block(2, (ClaimRequest("block", text, HOME),))
    end = finish_turn.End("answered", "end_turn", closing=2, legs=(leg(text),))
    do("finish", finish_turn.finish, fence, caller, [block], slots, end)
    went = do("depart", send_queue.depart, {"chat": ChannelCapacity(RULES, 9)})
    do("receipt", send_queue.record_outcome, went.sends[0].part, AttemptOutcome("receipt", receipt="r"), RULES)
    look(
        "since",
        views.read_changes,
        session,
        store.read_sync(lambda tx: tx.one(SessionRow, "session_by_id", id=session).rev) - 5,
    )
    look("snapshot", views.read_snapshot, session, 3)
    look("history", views.read_history, session, 8, 3)
    look("conversation", history.read_conversation, session, 1, begun.turn)
    look("why", explain.tell_story, f"e{begun.events[-1].event}")
    hear_late = do("hear for the next", hear.hear, event(10**6 + 2), [hear.Addressee("s", "main", HOME)])
    begun = do("begin the next", turns.begin, hear_late.woken_sessions[0], "g0", spawn)
    fence = turns.TurnFence(session, begun.turn, begun.epoch)
    do("release", turns.release_lease, fence)
    do("settle", turns.begin, session, "g0")
    return meter.costs


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.in_memory() as store:
        yield store


@pytest.fixture(scope="module")
def small() -> dict[str, tuple[int, int]]:
    with Store.in_memory() as store:
        store.write_sync(lambda tx: [one_turn(tx, n) for n in range(5)])
        return measure(store, 0)


def compare(
    small: dict[str, tuple[int, int]], large: dict[str, tuple[int, int]], but: frozenset[str] = frozenset()
) -> None:
    for name, (statements, steps) in large.items():
        if name in but:
            continue
        assert statements <= small[name][0] + 2, f"{name}: {small[name][0]} statements grew to {statements}"
        assert steps <= small[name][1] * 1.2 + 60, f"{name}: {small[name][1]} steps grew to {steps}"


STRETCH = frozenset({"conversation"})  # bounded by its stretch, which five turns do not fill


@pytest.mark.long
def test_a_message_costs_the_same_after_ten_entries_and_after_twenty_thousand(
    store: Store, small: dict[str, tuple[int, int]]
) -> None:
    def years(tx: Tx) -> None:
        for n in range(12_000):
            hear.hear(tx, event(2 * 10**6 + n, wakes=False), [hear.Addressee("s", "main", HOME)])
        for n in range(4_000):
            one_turn(tx, n)

    store.write_sync(years)
    large = measure(store, 0)
    compare(small, large, STRETCH)
    assert large["conversation"][1] < 20_000


def test_a_message_costs_the_same_beside_many_sessions(store: Store, small: dict[str, tuple[int, int]]) -> None:
    def crowd(tx: Tx) -> None:
        for n in range(2_000):
            other = hear.Addressee(f"other-{n}", "main", f"chat:other-{n}")
            hear.hear(tx, hear.Event("node", f"o{n}", "message", "hi", b"d", wakes=n % 2 == 0), [other])
            if n % 4 == 0:
                turns.begin(tx, tx.one(SessionRow, "session_by_key", key=other.key).id, "g0")  # type: ignore[union-attr]
        for n in range(5):
            one_turn(tx, n)

    store.write_sync(crowd)
    compare(small, measure(store, 0))


def test_a_message_costs_the_same_in_a_long_turn(store: Store, small: dict[str, tuple[int, int]]) -> None:
    """A hundred tool calls and a text in a thousand pieces: the next piece costs what the first one did."""
    store.write_sync(lambda tx: [one_turn(tx, n) for n in range(5)])
    session = store.write_sync(hear.hear, event(77), [hear.Addressee("s", "main", HOME)]).woken_sessions[0]
    begun = store.write_sync(turns.begin, session, "g0")
    fence, caller = turns.TurnFence(session, begun.turn, begun.epoch), Caller(session, "s", begun.turn, begun.root)
    meter = Meter(store._require_committer()._db)
    slots, costs = turn_ops.Slots(), []
    for n in range(1000):
        ops: list[turn_ops.Op] = [turn_ops.Preview(1, "piece ")]
        if n % 10 == 0:
            ops.append(turn_ops.ItemOpen(100 + n, "tool", body={}))
        slots = meter.run("show", store.write_sync, show.show, fence, caller, ops, slots)
        costs.append(meter.costs["show"])
    assert costs[11] == costs[1] == costs[991]
    assert costs[10] == costs[990]


def test_bystanders_who_talk_for_months_do_not_make_a_message_dearer(
    store: Store, small: dict[str, tuple[int, int]]
) -> None:
    """A group chat that never mentions the agent: its messages wait for the next turn, however many they are."""

    def chatter(tx: Tx) -> None:
        for n in range(5):
            one_turn(tx, n)
        for n in range(5_000):
            hear.hear(tx, event(2 * 10**6 + n, wakes=False), [hear.Addressee("s", "main", HOME)])

    store.write_sync(chatter)
    meter = Meter(store._require_committer()._db)

    def heard(tx: Tx) -> None:
        hear.hear(tx, event(3 * 10**6, wakes=False), [hear.Addressee("s", "main", HOME)])
        views.render_changes(tx)

    meter.run("hear a bystander", store.write_sync, heard)
    assert meter.costs["hear a bystander"][1] < small["hear a bystander"][1] + 11_000  # it counts up to a thousand
