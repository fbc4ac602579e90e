"""The live output of a running turn, and its end (Laws 4, 6, 8).

The gateway hands over batches of operations. Each operation names a slot, its own number for a block or an item;
`Slots` maps slots to rows and is returned updated by each transaction. `show` applies a batch; `finish` applies the
last one, delivers the closing text, records the evidence of the turn's end and ends the turn, all in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from semel.law import turn as law
from semel.law.permission_questions import numbers_from
from semel.ledger.delivery import claims, cutting, placeholders
from semel.ledger.delivery.cutting import Leg, cut_claim, is_local
from semel.ledger.storage.rows import ClaimRow, EntryRow, ItemRow, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import end_evidence, permission_requests, sessions, turns
from semel.ledger.turns.end_evidence import Evidence
from semel.ledger.turns.turn_ops import (
    About,
    Block,
    Complete,
    ItemGrow,
    ItemOpen,
    ItemSet,
    Leave,
    Notice,
    Op,
    Preview,
    Replace,
    Reserve,
    Slots,
    Supersede,
    Title,
    is_over,
)
from semel.ledger.turns.utterances import find_last_text, list_utterances


class _OpBatch:
    """Applies the operations of one batch, in order."""

    def __init__(self, tx: Tx, caller: claims.Caller, slots: Slots) -> None:
        self.tx = tx
        self.caller, self.session = caller, caller.session
        self.entries = dict(slots.entries)
        self.items = dict(slots.items)
        self.claims = dict(slots.claims)
        self.said = slots.said_count
        self.reserved = slots.reserved
        self.expired = set(slots.expired)
        self.attached = slots.attached
        self.tools = 0
        self.first_claims: dict[int, int] = {}  # the first home claim of each block of this batch, by slot

    def apply_all(self, ops: Sequence[Op]) -> Slots:
        for op in ops:
            getattr(self, "on_" + type(op).__name__)(op)
        if self.tools and self.caller.turn is not None:
            self.tx.run("turn_tools", id=self.caller.turn, n=self.tools)
        expired = frozenset(self.expired)
        return Slots(self.entries, self.items, self.claims, self.said, self.reserved, expired, self.attached)

    def on_Preview(self, op: Preview) -> None:
        seq = self.entries.get(op.slot)
        if seq is None:
            seq = entries.add_entry(self.tx, self.session, role="agent", text="", turn=self.caller.turn, live=True)
            self.entries[op.slot] = seq
        entries.grow_entry(self.tx, self.session, seq, op.text)

    def on_Replace(self, op: Replace) -> None:
        entries.set_entry(self.tx, self.session, self.entries[op.slot], text=op.text)

    def on_Block(self, op: Block) -> None:
        shown, is_first_at_home = self.entries.get(op.slot), True
        for request in op.requests:
            if op.partial:
                request = replace(request, is_cut=True)
            if request.is_home and request.dest is not None and not request.problem and shown is not None:
                request, shown = replace(request, shown_seq=shown), None
            result = claims.say(self.tx, self.caller, request)
            if result.outcome == "said":
                self.said += 1
            if request.is_home and is_first_at_home:  # further claims to home are not the block's own text
                self._link_home_text(op, result)
                is_first_at_home = False
                self.first_claims[op.slot] = result.claim
                if op.follows in self.first_claims:
                    self.tx.run("claim_part_of", id=result.claim, first=self.first_claims[op.follows])
        if shown is not None:
            self._close_unsaid(shown, op.partial)

    def _link_home_text(self, op: Block, result: claims.ClaimResult) -> None:
        """Map the block's slot to the claim and the entry that its text at home became.

        An echo that was cut off is not mapped to its original: the slot's parts would hold only the beginning of that.
        """
        if result.outcome == "echo" and result.reason == claims.CUT_REASON:
            return
        claim = result.echo_of if result.outcome == "echo" else result.claim
        if claim is not None and result.outcome in ("said", "echo"):
            self.claims[op.slot] = claim
        if result.outcome == "echo" and not op.partial:
            entries.mark_whole(self.tx, result.echo_of)
        if result.seq is not None:
            self.entries[op.slot] = result.seq
            if op.partial:
                entries.set_entry(self.tx, self.session, result.seq, partial=True, tell=op.tell)

    def _close_unsaid(self, shown: int, partial: bool) -> None:
        """Close the preview of a block that said nothing at home: the entry keeps the text and gets a claim (Law 6)."""
        text = entries.shown_text(self.tx, self.session, shown)
        claims.say(self.tx, self.caller, claims.ClaimRequest("recovery", text, dest="", shown_seq=shown))
        if partial:
            entries.set_entry(self.tx, self.session, shown, partial=True, tell=True)

    def on_Supersede(self, op: Supersede) -> None:
        seq = self.entries.get(op.slot)
        if seq is not None:
            entries.set_entry(self.tx, self.session, seq, superseded=True)

    def on_ItemOpen(self, op: ItemOpen) -> None:
        entries.hold_item_files(self.tx, self.session, op.body.get("files") or ())
        self.tools += op.started
        self.items[op.slot] = entries.add_item(
            self.tx, self.session, turn=self.caller.turn, kind=op.kind, name=op.name, text=op.text,
            body=op.body, live=op.live,
        )  # fmt: skip
        if "first" in op.body:
            last = numbers_from(int(op.body["first"]), op.body["options"])[-1]
            self.tx.run("session_numbered", id=self.session, last=last)
        if op.announcement is not None:
            words, legs = op.announcement.text, op.announcement.legs
            seq = permission_requests.announce(self.tx, self.session, self.caller.turn, words, legs)
            entries.set_item(self.tx, self.items[op.slot], body={"announced": seq})

    def on_ItemGrow(self, op: ItemGrow) -> None:
        item = self.items[op.slot]
        if op.output:
            self.tx.run("output_add", item=item, text=op.output)
        if op.text:
            entries.grow_item(self.tx, self.session, item, op.text)

    def on_ItemSet(self, op: ItemSet) -> None:
        item = self.items[op.slot]
        if is_over(op):
            self._request_over(op, item)
            return
        if op.output is not None:
            self.tx.run("output_drop", item=item)
            self.tx.run("output_add", item=item, text=op.output)
        entries.hold_item_files(self.tx, self.session, op.body.get("files") or ())
        entries.set_item(self.tx, item, text=op.text, body=op.body, live=op.live)

    def _request_over(self, op: ItemSet, item: int) -> None:
        """End a permission request that nobody can answer any more.

        An answer that was recorded before the deadline stands. An answer that a stop overtook on its way to the agent
        does not.
        """
        row = self.tx.get(ItemRow, "item_get", id=item)
        state, expired = entries.load(row.body).get("state"), op.body["state"] == "expired"
        if state in permission_requests.OVER_STATES or (state == "answered" and expired):
            return
        entries.set_item(self.tx, item, body=op.body, live=op.live)
        permission_requests.add_withdrawal_notice(self.tx, row, expired=expired)
        if expired:
            self.expired.add(op.slot)

    def on_Notice(self, op: Notice) -> None:
        caller = self.caller
        seq = turns.add_notice(self.tx, caller.session, op.text, turn=caller.turn, kind=op.kind, tell=op.tell)
        if op.kind == ATTACHED_KIND:
            self.attached = seq

    def on_Leave(self, op: Leave) -> None:
        _deliver_closing(self.tx, self.claims, op.slot, op.legs)

    def on_Complete(self, op: Complete) -> None:
        if cutting.deliver(self.tx, op.claim, op.legs):
            entries.mark_whole(self.tx, op.claim)

    def on_Reserve(self, op: Reserve) -> None:
        (turn, root), leg = (self.caller.turn, self.caller.root), op.leg
        if cutting.keep_previewed(self.tx, leg.dest, turn, op.text or str, streams=True):
            self.reserved = None  # undecided: the text may become what the placeholder shows
            return
        plain = cutting.without_placeholder(leg, cutting.find_answered_event(self.tx, root, leg))
        self.reserved = placeholders.place_placeholder(self.tx, self.session, turn, root, leg.dest, plain)

    def on_About(self, op: About) -> None:
        entries.set_about(self.tx, self.session, op.fields)

    def on_Title(self, op: Title) -> None:
        self.tx.run("session_set_title", id=self.session, title=sessions.normalise_title(op.text))
        entries.touch_session(self.tx, self.session)


def show(tx: Tx, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots) -> Slots:
    """Apply one batch of live output: rows exist before anything is seen. Raises Fenced."""
    turns.check_fence(tx, fence)
    return _OpBatch(tx, caller, slots).apply_all(ops)


def show_before_correction(
    tx: Tx, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots
) -> Slots:
    """Apply the last batch before the agent is asked to correct a text; from then on, repeats are echoes (Law 5).

    Raises Fenced.
    """
    new_slots = show(tx, fence, caller, ops, slots)
    tx.run("turn_corrected", id=fence.turn)
    return new_slots


@dataclass(frozen=True)
class End:
    """How a turn ends. `stop`: the agent's stop reason. `stopped`: who cancelled the turn.

    `closing`: the slot of its closing text. `legs`: the parts in which that text is sent; only if its chat gets only
    closing texts. `told_upto`: entries up to this seq were in the prompt. `notices`: notices about the end; they are
    recorded and sent after everything that was said. `held_notice` comes before them, unless the agent said something
    else when it was asked to correct its text. `remembered`: claims of cut-off texts that the agent's history has in
    the same words; if the agent says nothing more, the last of them was its complete answer. `answer`: the claim with
    which the agent's history ends.
    """

    event: law.Event
    stop: str
    error: str | None = None
    told_upto: int = 0
    closing: int | None = None
    legs: tuple[Leg, ...] = ()
    notices: tuple[Notice, ...] = ()
    held_notice: Notice | None = None  # the notice about a text that stays held back
    keeps_held_notice: bool = False  # held back again after a correction, or without a correction
    stopped: turns.StopRequest | None = None
    remembered: frozenset[int] = frozenset()
    answer: int | None = None


def finish(
    tx: Tx, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots, end: End
) -> tuple[Slots, bool]:
    """Apply the turn's last batch and end the turn, in one transaction. Raises Fenced.

    Returns the slots, and whether a wake is pending, so that another turn follows (Law 2).
    """
    row = turns.check_fence(tx, fence)
    new_slots = _OpBatch(tx, caller, slots).apply_all(ops)
    leaves = _deliver_closing(tx, new_slots.claims, end.closing, end.legs)
    recovered_claim = None if leaves else _deliver_behind(tx, row, caller, end)
    turns.close_entries(tx, fence.session, fence.turn)
    departed_claim = cutting.deliver_last_block(tx, row, fence.turn)
    held = end.held_notice if end.keeps_held_notice or not turns.has_said_since_correction(tx, fence.turn) else None
    notices = [held, *end.notices] if held is not None else end.notices
    evidence = _add_end_notices(tx, row, fence.turn, end, notices, new_slots.attached)
    turns.withdraw_reserved(tx, row, caller.root)
    entries.close_items(tx, fence.session)
    state = law.step("running", end.event)
    tx.run(
        "turn_end", id=fence.turn, state=state, stop=end.stop, error=end.error, at=tx.now, evidence=evidence.kind,
        row=evidence.row,
    )  # fmt: skip
    tx.run("session_idle", id=fence.session, turn=fence.turn)
    if end.told_upto:
        tx.run("entry_told", session=fence.session, upto=end.told_upto)
        _note_departure(tx, fence.session, departed_claim if recovered_claim is None else recovered_claim)
    entries.touch_session(tx, fence.session)
    return new_slots, row.wake_at is not None


EMPTY_TURN_NOTICE = "The agent ended its turn without a word."
ATTACHED_KIND = "turn.attached"
"""The kind of a notice about what an agent handed over beside its text. Such a notice is an answer (Law 12)."""


def _add_end_notices(
    tx: Tx, session: SessionRow, turn_id: int, end: End, notices: Sequence[Notice], attached: int | None
) -> Evidence:
    """Add the notices of a turn's end; return the evidence that its person can see the end (Law 12)."""
    turn = tx.get(TurnRow, "turn_get", id=turn_id)
    if end.stopped is not None:
        return turns.add_stop_notice(tx, session.id, turn, end.stopped.notice_text, end.stopped.seq)
    notice_seqs = [
        turns.add_notice(tx, session.id, notice.text, turn=turn_id, kind=notice.kind, tell=notice.tell)
        for notice in notices
    ]
    if notice_seqs:
        return Evidence("notice", notice_seqs[-1])
    evidence = end_evidence.find_evidence(tx, session, turn)
    if evidence is None and attached is not None and attached > (tx.value(int, "turn_asked_last", turn=turn_id) or 0):
        evidence = Evidence("notice", attached)
    if evidence := evidence or end_evidence.find_quiet(tx, turn):
        return evidence
    seq = turns.add_notice(tx, session.id, EMPTY_TURN_NOTICE, turn=turn_id, kind="turn.empty", tell=False)
    return Evidence("notice", seq)


def put_off(
    tx: Tx, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots, error: str, ms: int
) -> Slots:
    """Apply the last batch of an attempt that failed; the turn is tried again in `ms` milliseconds. Raises Fenced."""
    turns.check_fence(tx, fence)
    new_slots = _OpBatch(tx, caller, slots).apply_all(ops)
    turns.close_entries(tx, fence.session, fence.turn)
    entries.close_items(tx, fence.session)
    turns.put_off(tx, fence, error, ms)
    return new_slots


def show_late(
    tx: Tx, caller: claims.Caller, ops: Sequence[Op], slots: Slots, closing: int | None, legs: tuple[Leg, ...]
) -> Slots:
    """Apply what an agent sent after its turn had ended: late claims of that turn, which are said (Law 10)."""
    new_slots = _OpBatch(tx, caller, slots).apply_all(ops)
    _deliver_closing(tx, new_slots.claims, closing, legs)
    row = tx.get(SessionRow, "session_by_id", id=caller.session)
    if row.turn is None:
        entries.close_items(tx, caller.session)
    return new_slots


def _deliver_closing(tx: Tx, claims_by_slot: Mapping[int, int], closing: int | None, legs: tuple[Leg, ...]) -> bool:
    """Send the text in slot `closing`, if its chat gets only closing texts (`legs`). False if nothing is sent."""
    claim = claims_by_slot.get(closing) if closing is not None else None
    return claim is not None and bool(legs) and cutting.deliver(tx, claim, legs)


def _deliver_behind(tx: Tx, session: SessionRow, caller: claims.Caller, end: End) -> int | None:
    """Send the last text of a lost attempt as the answer, if this attempt said nothing of its own at home.

    An echo is not its own: the text was said before. If the last text repeated one that a tool had sent, the answer has
    been sent already. Returns the claim that is sent now, or None.
    """
    lost_before = caller.root is not None and caller.turn != caller.root
    if not lost_before or tx.number("says_at_home", turn=caller.turn, home=session.home):
        return None
    if end.answer is not None:
        return _deliver_answer(tx, session, caller, end.answer)
    last = find_last_text(list_utterances(tx, int(caller.root or 0), session.home))
    if last is None:
        return None
    if end.event == "answered" and last.cut and last.claim in end.remembered and last.seq is not None:
        entries.set_entry(tx, session.id, last.seq, partial=False, tell=False)
    leaves = last.fate in ("unsent", "seen")
    return last.claim if leaves and cutting.deliver_block(tx, session, last.claim) is not None else None


def _deliver_answer(tx: Tx, session: SessionRow, caller: claims.Caller, claim: int) -> int | None:
    """Send the answer: the claim with which the agent's history ends. Returns the claim that is sent, or None.

    If a later text has been sent, the answer can no longer be sent in order, so it is said again as a new claim.
    """
    row = tx.one(ClaimRow, "claim_get", id=claim)
    original = tx.one(ClaimRow, "claim_get", id=row.echo_of) if row is not None and row.outcome == "echo" else row
    if original is None or original.outcome != "said":
        return None
    entries.mark_whole(tx, original.id)
    if is_local(session.home) or tx.exists("part_first", claim=original.id):
        return None
    departed_claim = cutting.deliver_block(tx, session, claim)
    if departed_claim is None:
        legs = cut_claim(tx, session, original)
        departed_claim = claims.say(
            tx, caller, claims.ClaimRequest("recovery", original.text, session.home, legs=legs)
        ).claim
    return departed_claim


def _note_departure(tx: Tx, session: int, claim: int | None) -> None:
    """If a cut-off text is sent only now, put it into the next prompt: the last one said that it was not sent."""
    claim_row = tx.one(ClaimRow, "claim_get", id=claim) if claim is not None else None
    entry = tx.one(EntryRow, "entry_get", session=session, seq=claim_row.seq) if claim_row is not None else None
    if entry is not None and entry.partial:
        entries.set_entry(tx, session, entry.seq, tell=True)
