"""Cut a text into the parts in which it is sent, and queue the parts for their destination (Law 7).

A *leg* is a part before it is recorded. A page, a terminal and the transcript need no parts: there the commit is the
delivery. If a chat gets only closing texts, a block is recorded without parts. `queue_closing_block` adds the parts of
the closing text at the end of the turn, or before something else is said in that chat.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.acp_stream.redelivery import without_white_space
from semel.ledger.delivery import buttons, parts, placeholders
from semel.ledger.delivery.placeholders import OpenPlaceholder
from semel.ledger.storage.rows import ClaimEntry, ClaimRow, EntryRow, HomeSession, Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries


class OvertakenClaim(Row):
    """A claim whose text reaches the session's home only after the text of a later entry.

    `session`, `seq`: the claim's own entry. `behind`: the seq of the newest entry whose text reaches the home first.
    """

    session: int
    seq: int
    behind: int


@dataclass(frozen=True)
class Leg:
    """A part before it is recorded. It covers text[lo:hi] of the claim.

    `op`: the channel operation (`semel.gateway.ports.channel.Op`) as a JSON object. If it has `fill`, the part is an
    edit that turns the root's placeholder into this text (`semel.ledger.delivery.placeholders`).
    """

    lo: int
    hi: int
    channel: str
    dest: str
    op: dict[str, Any]


def cut(
    tx: Tx, dest: str, key: str, text: str, answer: bool = False, file: dict[str, Any] | None = None
) -> tuple[Leg, ...]:
    """Return the legs (parts to record) in which a text is sent to `dest`.

    Return () if the commit itself delivers the text, or if the channel of `dest` is not configured. `key`: the
    session's key. `answer`: the text is a turn's answer at home, so it may fill a placeholder there. `file`: send this
    file instead of the text.
    """
    if tx.cut is not None:
        return tx.cut(dest, key, text, answer, file)
    return () if is_local(dest) else single_part(dest, key, text)


def cut_claim(tx: Tx, session: HomeSession, claim: ClaimRow) -> tuple[Leg, ...]:
    """Return the legs in which a claim is sent to the session's home as a turn's answer; () if there is no home."""
    entry = tx.one(EntryRow, "entry_get", session=claim.session, seq=claim.seq) if claim.kind == "file" else None
    file = next(iter(entries.load(entry.more).get("files", ())), None) if entry is not None else None
    return () if session.home is None else cut(tx, session.home, session.key, claim.text, answer=True, file=file)


def single_part(dest: str, key: str, text: str) -> tuple[Leg, ...]:
    channel, _, address = dest.partition(":")
    op = {"kind": "post", "session": key, "address": address, "text": text}
    return (Leg(0, len(text), channel, dest, op),)


LOCAL = ("web", "terminal", "session")  # channels to which the commit itself delivers


def is_local(home: str | None) -> bool:
    """Return whether the commit itself delivers to this home: a page, a terminal or only the transcript."""
    channel, _, address = (home or "").partition(":")
    return not address or channel in LOCAL


def add_parts(tx: Tx, claim: int, legs: Sequence[Leg]) -> None:
    """Record the parts in which an utterance is sent. This fixes their text: a retry never cuts it again (Law 7).

    Each part gets a random idempotency key, short enough for every platform that deduplicates by key. Keys made of row
    numbers would be reused after a backup was restored, and the platform would then discard new messages.
    """
    if not legs:
        return
    row = tx.get(ClaimRow, "claim_get", id=claim)
    event = find_answered_event(tx, row.root, legs[0])
    for n, leg in enumerate(legs):
        op = leg.op if n else _first_operation(tx, row, leg, event)
        if event is not None and op.get("kind", "post") in ("post", "file"):
            op = {**op, "answers": event}
        op = buttons.keep_buttons(tx, row, op)
        tx.number(
            "part_add", line=parts.take_place(tx, leg.dest), claim=claim, n=n, lo=leg.lo, hi=leg.hi,
            channel=leg.channel, dest=leg.dest, key=secrets.token_hex(12), op=entries.dump(op), at=tx.now,
        )  # fmt: skip
    behind = tx.one(OvertakenClaim, "claim_behind", id=claim, dest=legs[0].dest)
    if behind is not None:  # the chat gets this text after entries that stand below it in the transcript
        entries.set_entry(tx, behind.session, behind.seq, more={"behind": behind.behind})


def _first_operation(tx: Tx, claim: ClaimRow, leg: Leg, event: int | None) -> dict[str, Any]:
    """Return the operation for the first part of an utterance.

    It fills the placeholder at the destination if `leg.op` allows that; otherwise the placeholders there are withdrawn.
    """
    if leg.op.get("kind", "post") not in ("post", "file"):
        return leg.op
    fills = bool(leg.op.get("fill"))
    deliver_previewed_text(tx, leg.dest, claim.turn, lambda: claim.text if fills else "", before_claim=claim.id)
    if fills:
        plain = without_placeholder(leg, event)
        return placeholders.fill_placeholder(tx, claim.session, claim.turn, claim.root, leg.dest, plain)
    placeholders.withdraw_at(tx, leg.dest)
    return leg.op


def deliver_previewed_text(
    tx: Tx,
    dest: str,
    turn: int | None,
    text: Callable[[], str],
    *,
    before_claim: int | None = None,
    streams: bool = False,
) -> bool:
    """Deliver the text that a lost attempt showed in a placeholder, before a new text replaces it there.

    A lost text that is a beginning of the new text is not delivered, because the new text contains it. `text`: returns
    the new text. `streams`: the new text may still grow. If it does, and so far is a beginning of a lost text, nothing
    can be decided yet: return True. `before_claim`: the claim of the new text; only older claims are delivered (Law 7).
    """
    for placeholder in tx.all(OpenPlaceholder, "reserved_at", dest=dest):
        if placeholder.state != "sent" or placeholder.sent_rev is None or placeholder.root is None:
            continue
        for claim, lost_text in tx.pairs(
            int,
            str,
            "previewed_in_root",
            root=placeholder.root,
            turn=turn,
            before=before_claim,
            sent=placeholder.sent_rev,
        ):
            new_text, seen_text = without_white_space(text()), without_white_space(lost_text)
            if streams and seen_text.startswith(new_text):
                return True
            if new_text.startswith(seen_text):
                continue
            session = tx.get(SessionRow, "session_by_id", id=placeholder.session)
            queue_closing_block(tx, claim, cut(tx, dest, session.key, lost_text, answer=True))
    return False


def without_placeholder(leg: Leg, event: int | None) -> dict[str, Any]:
    """Return the leg's operation, changed into a new message that fills no placeholder. The message answers `event`."""
    op = {name: value for name, value in leg.op.items() if name != "fill"}
    return op if event is None else {**op, "answers": event}


def find_answered_event(tx: Tx, root: int | None, leg: Leg) -> int | None:
    """Return the event that a text of this root answers: the last message that asked for the turn.

    Return None if that message did not come from the leg's destination.
    """
    if root is None:
        return None
    return tx.value(int, "event_answered", root=root, source=f"channel:{leg.channel}", dest=leg.dest)


def queue_closing_block(tx: Tx, claim: int, legs: Sequence[Leg]) -> bool:
    """Queue the parts of a said block once it is known to be the closing text. Return True if parts were queued.

    If the closing text is an echo, `claim` is its original: a text that a lost attempt said and that was not sent,
    because the chat gets only closing texts. The echo may differ from it in white space, so `legs` are fitted to the
    original's text. Nothing is queued if the block has parts already. Nothing is queued either if a later block of the
    turn has been sent, as happens before a notice: this block would come out of order.
    """
    said_claim = tx.one(ClaimRow, "claim_get", id=claim)
    if said_claim is None or not legs or tx.exists("part_first", claim=claim):
        return False
    if tx.exists("block_left_since", claim=claim):
        return False
    text_length = len(said_claim.text)
    fitted_legs = [replace(leg, lo=min(leg.lo, text_length), hi=min(leg.hi, text_length)) for leg in legs]
    fitted_legs[-1] = replace(fitted_legs[-1], hi=text_length)
    add_parts(tx, claim, fitted_legs)
    for entry in tx.all(ClaimEntry, "entries_of_claim", claim=claim):
        entries.touch_entry(tx, entry.session, entry.seq)
    return True


def deliver_last_block(tx: Tx, session: HomeSession, ending_turn: int | None = None) -> int | None:
    """Send the turn's last text to the session's home now, because Semel is about to send a notice there (Law 7).

    A chat that gets only closing texts would otherwise get this text at the turn's end, after the notice. But it must
    get both in the order of the record.

    `ending_turn`: the session's turn, if it ends now. If that turn said nothing of its own, the last text of a lost
    attempt is sent as its answer. Return the last claim that was sent; None if nothing was sent.
    """
    if is_local(session.home):
        return None
    turn = tx.one(TurnRow, "turn_get", id=session.turn if ending_turn is None else ending_turn)
    if turn is None:
        return None
    last_block = tx.one(ClaimRow, "claim_last_block", root=turn.root, home=session.home)
    if last_block is None:
        return None
    if last_block.turn != turn.id and (
        ending_turn is None or tx.number("says_at_home", turn=turn.id, home=session.home)
    ):
        return None
    return deliver_block(tx, session, last_block.id)


def deliver_block(tx: Tx, session: HomeSession, claim: int) -> int | None:
    """Send all claims that a block makes at the session's home, in order. `claim`: the id of any claim of the block.

    Instead of an echo, its original is sent. A claim that has parts already is skipped (`queue_closing_block`). Return
    the id of the last claim that was sent; None if nothing was sent.
    """
    block = tx.get(ClaimRow, "claim_get", id=claim)
    departed_claim = None
    first = block.id if block.part_of is None else block.part_of
    parts = tx.values(int, "claims_of_block", root=block.root, first=first, home=session.home)
    for part in parts or [block.id if block.echo_of is None else block.echo_of]:
        part_claim = tx.one(ClaimRow, "claim_get", id=part)
        if part_claim is not None and queue_closing_block(tx, part, cut_claim(tx, session, part_claim)):
            departed_claim = part
    return departed_claim
