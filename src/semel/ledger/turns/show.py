"""Record the live output of a running turn (Laws 4, 6, 8).

The gateway hands over batches of operations. Each operation names a slot, which is the gateway's own number for a block
or an item. `Slots` maps slots to rows; each transaction returns an updated copy. `show` applies a batch, and
`finish_turn.finish` applies the last batch of a turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from semel.law.permission_questions import numbers_from
from semel.ledger.delivery import buttons, claims, cutting, part_transitions, placeholders
from semel.ledger.delivery.cutting import Leg
from semel.ledger.storage.rows import ItemRow, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import permission_requests, repeated_words, sessions, turns
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
from semel.text.prompt_marks import escape_semel_markers

ATTACHED_KIND = "turn.attached"
"""The kind of a notice about attachments of an agent that could not be stored. It counts as an answer (Law 12)."""


class OpBatch:
    """Apply the operations of one batch, in order, and keep track of the slots."""

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
        self.superseding = dict(slots.superseding)
        self.tools = 0
        self.first_claims: dict[int, int] = {}  # the first home claim of each block of this batch, by slot

    def apply_all(self, ops: Sequence[Op]) -> Slots:
        for op in ops:
            getattr(self, "on_" + type(op).__name__)(op)
        if self.tools and self.caller.turn is not None:
            self.tx.run("turn_tools", id=self.caller.turn, n=self.tools)
        return Slots(
            self.entries, self.items, self.claims, self.said, self.reserved, frozenset(self.expired), self.attached,
            self.superseding,
        )  # fmt: skip

    def on_Preview(self, op: Preview) -> None:
        seq = self.entries.get(op.slot)
        if seq is None:
            seq = entries.add_entry(self.tx, self.session, role="agent", text="", turn=self.caller.turn, live=True)
            self._set_entry_of(op.slot, seq)
            self._name_beginnings(seq, op.text)
        entries.grow_entry(self.tx, self.session, seq, op.text)

    def on_Replace(self, op: Replace) -> None:
        entries.set_entry(self.tx, self.session, self.entries[op.slot], text=op.text)
        self._name_beginnings(self.entries[op.slot], op.text)

    def _set_entry_of(self, slot: int, seq: int) -> None:
        """Record which entry shows the block in `slot`. That entry names the entries that the block supersedes."""
        self.entries[slot] = seq
        entries.name_superseded(self.tx, self.session, seq, self.superseding.pop(slot, ()))

    def _name_beginnings(self, seq: int, text: str) -> None:
        """Let the entry of a preview name the entries of lost attempts whose cut-off texts are its beginning."""
        if self.caller.turn != self.caller.root:
            beginnings = claims.find_beginnings(self.tx, self.caller, text)
            entries.name_superseded(self.tx, self.session, seq, beginnings)

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
                self.first_claims[op.slot] = result.claim_id
                if op.follows in self.first_claims:
                    self.tx.run("claim_part_of", id=result.claim_id, first=self.first_claims[op.follows])
        if shown is not None:
            self._close_unsaid(shown, op.partial)

    def _link_home_text(self, op: Block, result: claims.ClaimResult) -> None:
        """Map the block's slot to the claim and the entry of its text at home.

        A cut-off echo is not mapped to its original, because the slot's parts would then contain only the beginning of
        the original.
        """
        if result.outcome == "echo" and result.reason == claims.CUT_REASON:
            return
        claim = result.echo_of if result.outcome == "echo" else result.claim_id
        if claim is not None and result.outcome in ("said", "echo"):
            self.claims[op.slot] = claim
        if result.outcome == "echo" and not op.partial:
            entries.mark_whole(self.tx, result.echo_of)
        if result.seq is not None:
            self._set_entry_of(op.slot, result.seq)
            if op.partial:
                entries.set_entry(self.tx, self.session, result.seq, partial=True, tell=op.tell)

    def _close_unsaid(self, shown: int, partial: bool) -> None:
        """Close the preview of a block that said nothing at home.

        The preview's entry keeps its text and gets a claim (Law 6).
        """
        text = entries.shown_text(self.tx, self.session, shown)
        claims.say(self.tx, self.caller, claims.ClaimRequest("recovery", text, dest="", shown_seq=shown))
        if partial:
            entries.set_entry(self.tx, self.session, shown, partial=True, tell=True)

    def on_Supersede(self, op: Supersede) -> None:
        seq = self.entries.get(op.slot)
        if seq is None:
            return
        entries.set_entry(self.tx, self.session, seq, superseded=True)
        by = self.entries.get(op.by)
        if by is None:
            self.superseding[op.by] = (*self.superseding.get(op.by, ()), seq)
        else:
            entries.name_superseded(self.tx, self.session, by, (seq,))

    def on_ItemOpen(self, op: ItemOpen) -> None:
        entries.hold_item_files(self.tx, self.session, op.body.get("files") or ())
        self.tools += op.started
        expires = None if op.lifetime_ms is None else self.tx.now + op.lifetime_ms
        self.items[op.slot] = entries.add_item(
            self.tx, self.session, turn=self.caller.turn, kind=op.kind, name=op.name, text=op.text,
            body={**op.body, "expires": expires, "at": self.tx.now}, live=op.live,
        )  # fmt: skip
        if "first" in op.body:
            last = numbers_from(int(op.body["first"]), op.body["options"])[-1]
            self.tx.run("session_numbered", id=self.session, last=last)
        if op.announcement is not None:
            words, legs = op.announcement.text, op.announcement.legs
            seq = permission_requests.announce(self.tx, self.session, self.caller.turn, words, legs)
            button_part = buttons.offer_buttons(self.tx, self.session, seq)
            entries.set_item(self.tx, self.items[op.slot], body={"announced": seq, "button_part": button_part})
        if op.kind == permission_requests.KIND:
            repeated_words.supersede_before_request(self.tx, self.caller, self.items[op.slot])

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

        An answer that was recorded before the deadline stays valid. An answer that was still on its way to the agent
        when a stop came does not.
        """
        row = self.tx.get(ItemRow, "item_get", id=item)
        state, expired = entries.load(row.body).get("state"), op.body["state"] == "expired"
        if state in permission_requests.OVER_STATES or (state == "answered" and expired):
            return
        entries.set_item(self.tx, item, body=op.body, live=op.live)
        part_transitions.touch_asking_entries(self.tx, item)
        buttons.take_away_buttons(self.tx, item)
        permission_requests.add_withdrawal_notice(self.tx, row, expired=expired)
        if expired:
            self.expired.add(op.slot)

    def on_Notice(self, op: Notice) -> None:
        caller = self.caller
        seq = turns.add_notice(self.tx, caller.session, op.text, turn=caller.turn, kind=op.kind, tell=op.tell)
        if op.kind == ATTACHED_KIND:
            self.attached = seq

    def on_Leave(self, op: Leave) -> None:
        deliver_closing(self.tx, self.claims, op.slot, op.legs)

    def on_Complete(self, op: Complete) -> None:
        if cutting.queue_closing_block(self.tx, op.claim, op.legs):
            entries.mark_whole(self.tx, op.claim)

    def on_Reserve(self, op: Reserve) -> None:
        (turn, root), leg = (self.caller.turn, self.caller.root), op.leg
        if cutting.deliver_previewed_text(self.tx, leg.dest, turn, op.text or str, streams=True):
            self.reserved = None  # the new text may still become the text that the placeholder shows
            return
        plain = cutting.without_placeholder(leg, cutting.find_answered_event(self.tx, root, leg))
        self.reserved = placeholders.ensure_placeholder(self.tx, self.session, turn, root, leg.dest, plain)

    def on_About(self, op: About) -> None:
        entries.set_about(self.tx, self.session, op.fields)

    def on_Title(self, op: Title) -> None:
        if escape_semel_markers(op.text) != op.text:
            return  # the agent made its title from the prompt, which begins with a note of Semel
        self.tx.run("session_set_title", id=self.session, title=sessions.normalise_title(op.text))
        entries.touch_session(self.tx, self.session)


def show(tx: Tx, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots) -> Slots:
    """Apply one batch of live output, and return the updated slots. Raises Fenced.

    Everything in the batch is a row before a watcher sees it.
    """
    turns.check_fence(tx, fence)
    return OpBatch(tx, caller, slots).apply_all(ops)


def show_before_correction(
    tx: Tx, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots
) -> Slots:
    """Apply the last batch before the agent is asked to correct a text. Return the updated slots. Raises Fenced.

    A text that the agent repeats after this point is an echo (Law 5).
    """
    new_slots = show(tx, fence, caller, ops, slots)
    tx.run("turn_corrected", id=fence.turn)
    return new_slots


def show_late(
    tx: Tx, caller: claims.Caller, ops: Sequence[Op], slots: Slots, closing: int | None, legs: tuple[Leg, ...]
) -> Slots:
    """Apply the output that an agent sent after its turn had ended. Return the updated slots.

    Its claims are late claims of that turn, and are said (Law 10).
    """
    new_slots = OpBatch(tx, caller, slots).apply_all(ops)
    deliver_closing(tx, new_slots.claims, closing, legs)
    row = tx.get(SessionRow, "session_by_id", id=caller.session)
    if row.turn is None:
        entries.close_items(tx, caller.session)
    return new_slots


def deliver_closing(tx: Tx, claims_by_slot: Mapping[int, int], closing: int | None, legs: tuple[Leg, ...]) -> bool:
    """Queue a closing text for its chat, as the parts `legs`. Return whether parts were queued.

    `closing`: the slot of the text; None if there is none. Nothing is queued if `legs` is empty, or if the text has
    parts already, because it was sent when it was said (`queue_closing_block`).
    """
    claim = claims_by_slot.get(closing) if closing is not None else None
    return claim is not None and bool(legs) and cutting.queue_closing_block(tx, claim, legs)
