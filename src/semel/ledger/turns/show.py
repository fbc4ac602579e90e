"""The live output of a running turn, and its end (Laws 4, 6, 8).

The gateway hands over batches of operations. Each operation names a slot, its own number for a block or an item;
`Slots` maps slots to rows and is returned updated by each transaction. `show` applies a batch; `finish` applies the
last one, delivers the closing text, records the evidence of the turn's end and ends the turn, all in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from semel.law import turn as law
from semel.law.permission_questions import numbers_from
from semel.ledger.delivery import claims, placeholders
from semel.ledger.delivery.cutting import Leg, cut_claim, is_local
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import end_evidence, permission_requests, sessions, turns
from semel.ledger.turns.end_evidence import Evidence
from semel.ledger.turns.utterances import find_last_text, list_of_root


@dataclass(frozen=True)
class Preview:
    """Agent text that streams in `slot`. The first preview of a slot creates its entry."""

    slot: int
    text: str


@dataclass(frozen=True)
class Replace:
    """The text of a live preview is replaced, because a re-delivery was recognised."""

    slot: int
    text: str


@dataclass(frozen=True)
class Block:
    """A block ended: the claims that it makes. The first claim to home takes over the slot's preview.

    `partial`: the turn ended before the block did. `tell`: the agent may not remember the text. `follows`: the slot of
    what the same block said first at home.
    """

    slot: int
    says: tuple[claims.Say, ...]
    partial: bool = False
    tell: bool = True
    follows: int | None = None


@dataclass(frozen=True)
class Supersede:
    """The block in `slot` was said again in full by a later attempt of the agent's own model call."""

    slot: int


@dataclass(frozen=True)
class Announced:
    """The words of a request, and the parts in which they leave for the session's home."""

    text: str
    legs: tuple[Leg, ...]


@dataclass(frozen=True)
class ItemOpen:
    slot: int
    kind: str
    name: str | None = None
    text: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    live: bool = True
    started: bool = False  # a tool call that counts for Law 9
    announce: Announced | None = None  # a request that is also announced at home


@dataclass(frozen=True)
class ItemGrow:
    """`text` is appended to what is shown, `output` to the stored whole of a tool's output."""

    slot: int
    text: str = ""
    output: str = ""


@dataclass(frozen=True)
class ItemSet:
    slot: int
    body: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    live: bool | None = None
    output: str | None = None  # a snapshot: the stored whole is replaced


@dataclass(frozen=True)
class Notice:
    text: str
    kind: str
    tell: bool = False


@dataclass(frozen=True)
class Title:
    text: str


@dataclass(frozen=True)
class About:
    """What the agent offers in this session; merged into what is known."""

    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Reserve:
    """Place a placeholder at home for text that streams. `leg`: as the text would leave; `text`: what is seen now."""

    leg: Leg
    text: Callable[[], str] | None = None


@dataclass(frozen=True)
class Leave:
    """Send what was said in `slot` in these parts, unless it has left, where only closing texts are delivered."""

    slot: int
    legs: tuple[Leg, ...]


@dataclass(frozen=True)
class Complete:
    """The text in which a lost attempt was cut off was complete, as its agent remembers: send it in these parts."""

    claim: int
    legs: tuple[Leg, ...]


Op = (
    Leave | Complete | Reserve | About | Preview | Replace | Block | Supersede
    | ItemOpen | ItemGrow | ItemSet | Notice | Title
)  # fmt: skip


@dataclass(frozen=True)
class Slots:
    """The rows of a running turn's slots. Each transaction returns a new one."""

    entries: Mapping[int, int] = field(default_factory=dict)
    items: Mapping[int, int] = field(default_factory=dict)
    claims: Mapping[int, int] = field(default_factory=dict)  # said home claims by slot
    said: int = 0
    reserved: int | None = None  # the placeholder part of the last Reserve; None: it never arrived
    expired: frozenset[int] = frozenset()  # permission requests that nobody had answered when their deadline passed
    attached: int | None = None  # the last notice about what the agent handed over beside its text


def announces(op: Op) -> bool:
    """Whether an operation may send a notice to the session's home."""
    if isinstance(op, ItemOpen):
        return op.announce is not None
    if isinstance(op, Leave | Notice):
        return True
    return isinstance(op, ItemSet) and _is_over(op)


def _is_over(op: ItemSet) -> bool:
    return op.body.get("state") in permission_requests.OVER


class _Apply:
    """Applies the operations of one batch, in order."""

    def __init__(self, tx: Tx, caller: claims.Caller, slots: Slots) -> None:
        self.tx = tx
        self.caller = caller
        self.entries = dict(slots.entries)
        self.items = dict(slots.items)
        self.claims = dict(slots.claims)
        self.said = slots.said
        self.reserved = slots.reserved
        self.expired = set(slots.expired)
        self.attached = slots.attached
        self.tools = 0
        self.firsts: dict[int, int] = {}  # the first home claim of each block of this batch, by slot

    def all(self, ops: Sequence[Op]) -> Slots:
        for op in ops:
            getattr(self, "on_" + type(op).__name__)(op)
        if self.tools and self.caller.turn is not None:
            self.tx.run("turn_tools", id=self.caller.turn, n=self.tools)
        expired = frozenset(self.expired)
        return Slots(self.entries, self.items, self.claims, self.said, self.reserved, expired, self.attached)

    def on_Preview(self, op: Preview) -> None:
        seq = self.entries.get(op.slot)
        if seq is None:
            seq = entries.add_entry(
                self.tx, self.caller.session, role="agent", text="", turn=self.caller.turn, live=True
            )
            self.entries[op.slot] = seq
        entries.grow_entry(self.tx, self.caller.session, seq, op.text)

    def on_Replace(self, op: Replace) -> None:
        entries.set_entry(self.tx, self.caller.session, self.entries[op.slot], text=op.text)

    def on_Block(self, op: Block) -> None:
        shown, bare = self.entries.get(op.slot), True
        for what in op.says:
            if op.partial:
                what = replace(what, cut=True)
            if what.home and what.dest is not None and not what.problem and shown is not None:
                what, shown = replace(what, shown=shown), None
            made = claims.say(self.tx, self.caller, what)
            if made.outcome == "said":
                self.said += 1
            if what.home and bare:  # further claims to home are not the block's own text
                self._own(op, made)
                bare = False
                self.firsts[op.slot] = made.claim
                if op.follows in self.firsts:
                    self.tx.run("claim_part_of", id=made.claim, first=self.firsts[op.follows])
        if shown is not None:
            self._close_unsaid(shown, op.partial)

    def _own(self, op: Block, made: claims.Made) -> None:
        """Record what became of the block's text at home. A cut-off text that repeats another one does not stand in for
        it: the original leaves in its own words.
        """
        if made.outcome == "echo" and made.reason == claims.CUT:
            return
        claim = made.echo_of if made.outcome == "echo" else made.claim
        if claim is not None and made.outcome in ("said", "echo"):
            self.claims[op.slot] = claim
        if made.outcome == "echo" and not op.partial:
            entries.mark_whole(self.tx, made.echo_of)
        if made.seq is not None:
            self.entries[op.slot] = made.seq
            if op.partial:
                entries.set_entry(self.tx, self.caller.session, made.seq, partial=True, tell=op.tell)

    def _close_unsaid(self, shown: int, partial: bool) -> None:
        """Nothing of a shown text was said: the entry keeps the text and gets a claim (Law 6)."""
        text = entries.shown_text(self.tx, self.caller.session, shown)
        what = claims.Say("recovery", text, dest="", shown=shown)
        claims.say(self.tx, self.caller, what)
        if partial:
            entries.set_entry(self.tx, self.caller.session, shown, partial=True, tell=True)

    def on_Supersede(self, op: Supersede) -> None:
        seq = self.entries.get(op.slot)
        if seq is not None:
            entries.set_entry(self.tx, self.caller.session, seq, superseded=True)

    def on_ItemOpen(self, op: ItemOpen) -> None:
        entries.hold_files(self.tx, self.caller.session, op.body.get("files") or ())
        self.tools += op.started
        self.items[op.slot] = entries.add_item(
            self.tx, self.caller.session, turn=self.caller.turn, kind=op.kind, name=op.name, text=op.text,
            body=op.body, live=op.live,
        )  # fmt: skip
        if "first" in op.body:
            last = numbers_from(int(op.body["first"]), op.body["options"])[-1]
            self.tx.run("session_numbered", id=self.caller.session, last=last)
        if op.announce is not None:
            words, legs = op.announce.text, op.announce.legs
            seq = permission_requests.announce(self.tx, self.caller.session, self.caller.turn, words, legs)
            entries.set_item(self.tx, self.items[op.slot], body={"announced": seq})

    def on_ItemGrow(self, op: ItemGrow) -> None:
        item = self.items[op.slot]
        if op.output:
            self.tx.run("output_add", item=item, text=op.output)
        if op.text:
            entries.grow_item(self.tx, self.caller.session, item, op.text)

    def on_ItemSet(self, op: ItemSet) -> None:
        item = self.items[op.slot]
        if _is_over(op):
            self._request_over(op, item)
            return
        if op.output is not None:
            self.tx.run("output_drop", item=item)
            self.tx.run("output_add", item=item, text=op.output)
        entries.hold_files(self.tx, self.caller.session, op.body.get("files") or ())
        entries.set_item(self.tx, item, text=op.text, body=op.body, live=op.live)

    def _request_over(self, op: ItemSet, item: int) -> None:
        """End a permission request that nobody can answer any more.

        An answer that was recorded before the deadline stands. An answer that a stop overtook on its way to the agent
        does not.
        """
        row = self.tx.one("item_get", id=item)
        assert row is not None
        state, expired = entries.load(row.body).get("state"), op.body["state"] == "expired"
        if state in permission_requests.OVER or (state == "answered" and expired):
            return
        entries.set_item(self.tx, item, body=op.body, live=op.live)
        permission_requests.tell_withdrawn(self.tx, row, expired=expired)
        if expired:
            self.expired.add(op.slot)

    def on_Notice(self, op: Notice) -> None:
        caller = self.caller
        seq = turns.notice(self.tx, caller.session, op.text, turn=caller.turn, kind=op.kind, tell=op.tell)
        if op.kind == ATTACHED:
            self.attached = seq

    def on_Leave(self, op: Leave) -> None:
        _deliver_closing(self.tx, self.claims, op.slot, op.legs)

    def on_Complete(self, op: Complete) -> None:
        if claims.deliver(self.tx, op.claim, op.legs):
            entries.mark_whole(self.tx, op.claim)

    def on_Reserve(self, op: Reserve) -> None:
        who, leg = self.caller, op.leg
        if claims.keep_previewed(self.tx, leg.dest, who.turn, op.text or str, streams=True):
            self.reserved = None  # the text may turn out to be what the placeholder shows
            return
        plain = claims.unfilled(leg, claims.answered(self.tx, who.root, leg))
        self.reserved = placeholders.place(self.tx, who.session, who.turn, who.root, leg.dest, plain)

    def on_About(self, op: About) -> None:
        entries.set_about(self.tx, self.caller.session, op.fields)

    def on_Title(self, op: Title) -> None:
        self.tx.run("session_set_title", id=self.caller.session, title=sessions.normalise_title(op.text))
        entries.touch_session(self.tx, self.caller.session)


def show(tx: Tx, fence: turns.Fence, caller: claims.Caller, ops: Sequence[Op], slots: Slots) -> Slots:
    """Apply one batch of live output: rows exist before anything is seen. Raises Fenced."""
    turns.check(tx, fence)
    return _Apply(tx, caller, slots).all(ops)


def correct(tx: Tx, fence: turns.Fence, caller: claims.Caller, ops: Sequence[Op], slots: Slots) -> Slots:
    """Apply the last batch before the agent corrects a held text; repeats are echoes then (Law 5). Raises Fenced."""
    after = show(tx, fence, caller, ops, slots)
    tx.run("turn_corrected", id=fence.turn)
    return after


@dataclass(frozen=True)
class End:
    """How a turn ends. `closing`: the slot of its closing text; `legs`: the parts in which that text leaves.

    `notices`: notices about the end; they come, and leave, after everything that was said. `held` is one of them,
    unless the agent said something else when it was asked to correct its text. `stopped`: who cancelled the turn.
    `remembered`: claims of cut-off texts that the agent remembers in the same words. If it says nothing more, the last
    of them was its complete answer. `answer`: the claim with which the agent's history ends.
    """

    event: law.Event
    stop: str
    error: str | None = None
    told_upto: int = 0
    closing: int | None = None
    legs: tuple[Leg, ...] = ()
    notices: tuple[Notice, ...] = ()
    held: Notice | None = None  # the notice about a text that stays held back
    held_again: bool = False  # it was held back after the agent was asked to correct it, or was not asked
    stopped: turns.Stop | None = None
    remembered: frozenset[int] = frozenset()
    answer: int | None = None


def finish(
    tx: Tx, fence: turns.Fence, caller: claims.Caller, ops: Sequence[Op], slots: Slots, end: End
) -> tuple[Slots, bool]:
    """Apply the turn's last batch and end the turn, in one transaction. True: another turn is due at once (Law 2)."""
    row = turns.check(tx, fence)
    after = _Apply(tx, caller, slots).all(ops)
    leaves = _deliver_closing(tx, after.claims, end.closing, end.legs)
    behind = None if leaves else _deliver_behind(tx, row, caller, end)
    turns.close_entries(tx, fence.session, fence.turn)
    left = claims.put_in_line(tx, row, fence.turn)
    held = end.held if end.held_again or not turns.said_since_corrected(tx, fence.turn) else None
    told = [held, *end.notices] if held is not None else end.notices
    seen = _tell_end(tx, row, fence.turn, end, told, after.attached)
    turns.close_reserved(tx, row, caller.root)
    entries.rest_items(tx, fence.session)
    state = law.step("running", end.event)
    tx.run(
        "turn_end", id=fence.turn, state=state, stop=end.stop, error=end.error, at=tx.now, evidence=seen.kind,
        row=seen.row,
    )  # fmt: skip
    tx.run("session_idle", id=fence.session, turn=fence.turn)
    if end.told_upto:
        tx.run("entry_told", session=fence.session, upto=end.told_upto)
        _tell_that_it_left(tx, fence.session, left if behind is None else behind)
    entries.touch_session(tx, fence.session)
    return after, row.wake_at is not None


EMPTY = "The agent ended its turn without a word."
ATTACHED = "turn.attached"
"""The kind of a notice about what an agent handed over beside its text. It is an answer, in Semel's words."""


def _tell_end(tx: Tx, session: Row, number: int, end: End, notices: Sequence[Notice], attached: int | None) -> Evidence:
    """Add the notices of a turn's end; return the evidence of what its person can see (Law 12)."""
    turn = tx.one("turn_get", id=number)
    assert turn is not None
    if end.stopped is not None:
        return turns.tell_stopped(tx, session.id, turn, end.stopped.words, end.stopped.seq)
    told = [turns.notice(tx, session.id, one.text, turn=number, kind=one.kind, tell=one.tell) for one in notices]
    if told:
        return Evidence("notice", told[-1])
    found = end_evidence.find(tx, session, turn)
    if found is None and attached is not None and attached > (tx.value("turn_asked_last", turn=number) or 0):
        found = Evidence("notice", attached)
    found = found or end_evidence.find_quiet(tx, turn)
    if found is None:
        seq = turns.notice(tx, session.id, EMPTY, turn=number, kind="turn.empty", tell=False)
        found = Evidence("notice", seq)
    return found


def put_off(
    tx: Tx, fence: turns.Fence, caller: claims.Caller, ops: Sequence[Op], slots: Slots, why: str, ms: int
) -> Slots:
    """Apply the last batch of an attempt that failed, and is tried again later. Raises Fenced."""
    turns.check(tx, fence)
    after = _Apply(tx, caller, slots).all(ops)
    turns.close_entries(tx, fence.session, fence.turn)
    entries.rest_items(tx, fence.session)
    turns.put_off(tx, fence, why, ms)
    return after


def late(
    tx: Tx, caller: claims.Caller, ops: Sequence[Op], slots: Slots, closing: int | None, legs: tuple[Leg, ...]
) -> Slots:
    """Apply what an agent sent after its turn had ended: late claims of that turn, which are said (Law 10)."""
    after = _Apply(tx, caller, slots).all(ops)
    _deliver_closing(tx, after.claims, closing, legs)
    row = tx.one("session_by_id", id=caller.session)
    assert row is not None
    if row.turn is None:
        entries.rest_items(tx, caller.session)
    return after


def _deliver_closing(tx: Tx, said: Mapping[int, int], closing: int | None, legs: tuple[Leg, ...]) -> bool:
    """Send the closing text where only closing texts are delivered. False if nothing leaves now."""
    claim = said.get(closing) if closing is not None else None
    return claim is not None and bool(legs) and claims.deliver(tx, claim, legs)


def _deliver_behind(tx: Tx, session: Row, caller: claims.Caller, end: End) -> int | None:
    """Send the last text of a lost attempt as the answer, if this attempt said nothing of its own.

    An echo is nothing of its own: its text was said before. If a text repeated what a tool had sent, that is the answer
    and has left. Returns the claim that leaves now, or None.
    """
    lost_before = caller.root is not None and caller.turn != caller.root
    if not lost_before or tx.value("says_at_home", turn=caller.turn, home=session.home):
        return None
    if end.answer is not None:
        return _deliver_answer(tx, session, caller, end.answer)
    last = find_last_text(list_of_root(tx, int(caller.root or 0), session.home))
    if last is None:
        return None
    if end.event == "answered" and last.cut and last.claim in end.remembered and last.seq is not None:
        entries.set_entry(tx, session.id, last.seq, partial=False, tell=False)
    leaves = last.fate in ("unsent", "seen")
    return last.claim if leaves and claims.deliver_block(tx, session, last.claim) is not None else None


def _deliver_answer(tx: Tx, session: Row, caller: claims.Caller, claim: int) -> int | None:
    """Send the answer, the text with which an agent's history ends; again, if a later text has left."""
    row = tx.one("claim_get", id=claim)
    said = tx.one("claim_get", id=row.echo_of) if row is not None and row.outcome == "echo" else row
    if said is None or said.outcome != "said":
        return None
    entries.mark_whole(tx, said.id)
    if is_local(session.home) or tx.value("part_first", claim=said.id) is not None:
        return None
    left = claims.deliver_block(tx, session, claim)
    if left is None:
        legs = cut_claim(tx, session, said)
        left = claims.say(tx, caller, claims.Say("recovery", said.text, session.home, legs=legs)).claim
    return left


def _tell_that_it_left(tx: Tx, session: int, claim: int | None) -> None:
    """Tell the agent that its cut-off text has left now: it was told the text never did, and added nothing."""
    said = tx.one("claim_get", id=claim) if claim is not None else None
    entry = tx.one("entry_get", session=session, seq=said.seq) if said is not None else None
    if entry is not None and entry.partial:
        entries.set_entry(tx, session, entry.seq, tell=True)
