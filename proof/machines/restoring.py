"""Law 14 against platforms that forget nothing: a ledger that is put back from a copy does nothing twice by itself.

Messages leave for a platform of each class, messages are heard and turns run; at any time a copy is made, and at any
later time the ledger is put back from it and settled. The machine counts what people see and how often an agent is
asked about each message.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import apsw
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from proof.machines.counted import Counted
from semel.law.delivery import Rules
from semel.ledger.admin import books
from semel.ledger.backup import settle_restored
from semel.ledger.delivery import claims, send_queue
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.cutting import Leg
from semel.ledger.delivery.send_queue import AttemptOutcome, ChannelCapacity, Departure
from semel.ledger.inbound import hear
from semel.ledger.sqlite.connect import connect
from semel.ledger.sqlite.group_commit import Committer
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import LedgerRow, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx, queries
from semel.ledger.turns import finish_turn, turn_ops, turns

HOUR = 3_600_000
RULES = {
    "folds": Rules("idempotent", key_life=HOUR),
    "finds": Rules("reconcilable", absence_proven_after=1000, can_look_up=True),
    "neither": Rules("at-most-once"),
}
CHANNELS = st.sampled_from(sorted(RULES))


class RestoreMachine(Counted):
    """One ledger, its copies, and what the world has seen of all its lives."""

    @initialize()
    def begin(self) -> None:
        self.now = 1_750_000_000_000
        self.store = Store.in_memory(clock=lambda: self.now)
        self.copy: apsw.Connection | None = None
        self.seen: dict[str, list[int]] = {}  # key -> when the platform took it and showed it
        self.shown: Counter[str] = Counter()  # texts that people see, unmarked
        self.asked: Counter[str] = Counter()  # how often an agent was asked about a message
        self.said = self.heard = 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.the_books_hold()
            self.store.close()

    # ------------------------------------------------------------ what happens

    @rule(channel=CHANNELS)
    def something_is_said(self, channel: str) -> None:
        self.said += 1
        text = f"text {self.said}"
        self.store.write_sync(_say, channel, text)

    @rule(channel=CHANNELS)
    def somebody_asks(self, channel: str) -> None:
        self.heard += 1
        self.store.write_sync(_hear, channel, f"m{self.heard}")

    @rule()
    def turns_begin(self) -> None:
        for channel in sorted(RULES):
            for text in self.store.write_sync(_begin, channel):
                self.asked[text] += 1

    @rule()
    def turns_are_answered(self) -> None:
        for channel in sorted(RULES):
            self.said += 1
            self.store.write_sync(_answer, channel, f"text {self.said}")

    @rule(ms=st.sampled_from([10, 1500, HOUR, HOUR]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(way=st.sampled_from(["receipt", "receipt", "lost", "nothing"]))
    def the_outbox_works(self, way: str) -> None:
        asks = {name: ChannelCapacity(rules, 8) for name, rules in RULES.items()}
        done = self.store.write_sync(send_queue.depart, asks)
        for one in done.sends:
            if way != "nothing":
                self.arrive(one)
            outcome = (
                AttemptOutcome("receipt", receipt=f"r-{one.key}") if way == "receipt" else AttemptOutcome("silence")
            )
            self.store.write_sync(send_queue.record_outcome, one.part, outcome, RULES[one.channel])
        for one in done.look_ups:
            found = (
                AttemptOutcome("found", receipt=f"r-{one.key}") if one.key in self.seen else AttemptOutcome("absent")
            )
            self.store.write_sync(send_queue.record_outcome, one.part, found, RULES[one.channel])

    def arrive(self, one: Departure) -> None:
        before = self.seen.setdefault(one.key, [])
        folds = one.channel == "folds" and any(self.now - at < HOUR for at in before)
        before.append(self.now)
        if not folds and not one.is_marked:
            self.shown[str(one.op["text"])] += 1

    @rule()
    def a_copy_is_made(self) -> None:
        self.copy = _copy_of(self.store)
        self.copy.execute("UPDATE ledger SET copied = ?", (self.now,))

    @precondition(lambda self: self.copy is not None)
    @rule()
    def it_is_put_back(self) -> None:
        assert self.copy is not None
        life = self.store.read_sync(lambda tx: tx.one(LedgerRow, "ledger_get").incarnation)  # type: ignore[union-attr]
        self.store.close()
        path = Path(":memory:")
        fresh = connect(path)
        with fresh.backup("main", self.copy, "main") as backup:
            backup.step(-1)
        fresh.execute("UPDATE ledger SET incarnation = max(incarnation, ?)", (life,))
        self.store = Store(path, Committer(fresh, path, queries(), lambda: self.now), None)
        assert self.store.write_sync(settle_restored.settle_copy) is not None, "it is a copy, and was not settled"
        self.the_books_hold()
        self.store.write_sync(send_queue.recover, RULES)
        self.now += 1

    # ------------------------------------------------------------ what must hold

    @invariant()
    def nobody_sees_anything_twice(self) -> None:
        twice = [text for text, times in self.shown.items() if times > 1 and "was restored to its state" not in text]
        assert not twice, f"Law 14: {twice[0]!r} is there {self.shown[twice[0]]} times, unmarked"

    @invariant()
    def no_agent_is_asked_twice(self) -> None:
        twice = [text for text, times in self.asked.items() if times > 1]
        assert not twice, f"Law 14: an agent was asked about {twice[0]!r} again, on a guess"

    def the_books_hold(self) -> None:
        broken = [book for book in self.store.read_sync(books.audit) if not book.ok]
        assert not broken, f"{broken[0].law}: {broken[0].broken[0]}"


def _copy_of(store: Store) -> apsw.Connection:
    copy = apsw.Connection(":memory:")
    source: Any = store._require_committer()._db
    with copy.backup("main", source, "main") as backup:
        backup.step(-1)
    return copy


# ---------------------------------------------------------------- bodies of transactions


def _to(channel: str) -> hear.Addressee:
    return hear.Addressee(f"main:{channel}:room", "main", f"{channel}:room")


def _legs(channel: str, text: str) -> tuple[Leg, ...]:
    op = {"kind": "post", "session": _to(channel).key, "address": "room", "text": text}
    return (Leg(0, len(text), channel, f"{channel}:room", op),)


def _say(tx: Tx, channel: str, text: str) -> None:
    row = hear.open_session(tx, _to(channel))
    claims.say(tx, Caller(row.id, row.key, None, None), ClaimRequest("tool", text, row.home, legs=_legs(channel, text)))


def _hear(tx: Tx, channel: str, key: str) -> None:
    hear.hear(tx, hear.Event(f"channel:{channel}", key, "message", key, key.encode()), [_to(channel)])


def _begin(tx: Tx, channel: str) -> list[str]:
    """The messages that an agent is asked about now."""
    row = tx.one(SessionRow, "session_by_key", key=_to(channel).key)
    if row is None:
        return []
    begun = turns.begin(tx, row.id, "gateway")
    return [one.text for one in begun.events] if isinstance(begun, turns.BegunTurn) else []


def _answer(tx: Tx, channel: str, text: str) -> None:
    row = tx.one(SessionRow, "session_by_key", key=_to(channel).key)
    if row is None or row.turn is None:
        return
    turn = tx.get(TurnRow, "turn_get", id=row.turn)
    caller = Caller(row.id, row.key, turn.id, turn.root)
    said = ClaimRequest("block", text, row.home, legs=_legs(channel, text))
    fence = turns.TurnFence(row.id, turn.id, turn.epoch)
    finish_turn.finish(
        tx, fence, caller, [turn_ops.Block(0, (said,))], turn_ops.Slots(), finish_turn.End("answered", "end_turn")
    )
