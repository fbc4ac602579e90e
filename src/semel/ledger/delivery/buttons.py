"""Buttons under a request or a question: take them away once it is over, and say there how it ended (Laws 6, 13).

A leg whose operation has `closes` was cut for a channel that can do that (`Caps.button_edits`). The part of such a leg
is named in the item (`button_part`). When the item is over, the part's message is edited: its text with a line that
says how it ended, and no buttons. The edit is the part of a quiet claim of its own: it says nothing that the record
does not say in a notice, in the answer to a command or in the item; so its failure causes no notice.

Where reactions are the buttons (`Caps.button_reactions`), the operation of the leg has `offered`: pairs of an emoji and
its answer. Once the message is queued, `offer_buttons` queues our own reactions behind it, as parts of a quiet claim,
too; but not where an account can have only one reaction on a message (`Caps.one_reaction`): such an operation has
`no_own_reactions`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from semel.law import permission_questions as law
from semel.law.answer_emoji import is_same_emoji
from semel.ledger.delivery import parts, reservations
from semel.ledger.storage.rows import AddedClaim, ClaimKind, ClaimRow, EntryRow, ItemRow, OutgoingPart, PartRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries, part_requests

if TYPE_CHECKING:
    from semel.ledger.delivery.cutting import Leg

TAKEN_AWAY_REASON = "its buttons are taken away"
"""The reason of the quiet claim of the edit."""
OFFER_REASON = "its answers are offered as reactions"
"""The reason of the quiet claim of our reactions."""


def with_buttons(
    legs: Sequence[Leg], buttons: Sequence[dict[str, Any]], *, are_taken_away: bool = False
) -> tuple[Leg, ...]:
    """Return the legs with these buttons (`semel.gateway.ports.channel.Button`, as JSON objects) under the last one.

    `are_taken_away`: the channel can take them away once they are of no use.
    """
    return _with_fields(legs, {"buttons": list(buttons)}, are_taken_away) if buttons else tuple(legs)


def with_reactions(
    legs: Sequence[Leg], offered: Sequence[tuple[str, str]], *, is_shown: bool = True, are_taken_away: bool = False
) -> tuple[Leg, ...]:
    """Return the legs, the last one of which offers these (emoji, answer) as reactions (see `offer_buttons`).

    `is_shown`: reactions of ours show them; otherwise only the text names them. `are_taken_away`: the message is edited
    once they are of no use. Our reactions stay.
    """
    unshown = {} if is_shown else {"no_own_reactions": True}
    return _with_fields(legs, {"offered": [list(pair) for pair in offered], **unshown}, are_taken_away)


def _with_fields(legs: Sequence[Leg], fields: dict[str, Any], are_taken_away: bool) -> tuple[Leg, ...]:
    if not legs:
        return ()
    more = fields | ({"closes": True} if are_taken_away else {})
    return (*legs[:-1], replace(legs[-1], op={**legs[-1].op, **more}))


def offer_buttons(tx: Tx, session: int, seq: int | None) -> int | None:
    """Queue our reactions to the message of the entry `seq`, which asks, if they are its buttons.

    Return its part, the last one of the entry, if its buttons are taken away once they are of no use; else None.
    """
    entry = tx.one(EntryRow, "entry_get", session=session, seq=seq) if seq is not None else None
    sent = tx.all(PartRow, "parts_of_claim", claim=entry.claim) if entry is not None and entry.claim is not None else []
    if not sent:
        return None
    part = sent[-1]
    op = entries.load(part.op)
    if "offered" in op and "no_own_reactions" not in op:
        _queue_reactions(tx, part.id, op["offered"])
    return part.id if op.get("closes") else None


def _queue_reactions(tx: Tx, part: int, offered: Sequence[Sequence[str]]) -> None:
    """Queue a reaction for each answer that a part offers, so that people only have to press it.

    The reactions say nothing that the message does not say, so their failure causes no notice.
    """
    posted = parts.get(tx, part)
    claim = _add_quiet_claim(tx, posted, "reaction", OFFER_REASON)
    for n, (emoji, _) in enumerate(offered):
        _queue_part(tx, posted, claim, n, {"kind": "react", "text": emoji, "target_part": posted.id})


def is_late_offer(tx: Tx, row: OutgoingPart) -> bool:
    """Return whether a part is one of our reactions to a request that is over."""
    if row.reason != OFFER_REASON:
        return False
    asking = tx.one(OutgoingPart, "part_get", id=entries.load(row.op).get("target_part"))
    return asking is None or part_requests.is_over(tx, asking.claim)


def find_answer(tx: Tx, dest: str, session: str, message: str, key: str | None, emoji: str) -> str | None:
    """Return the answer for which a reaction to a message of ours stands; None if the message does not offer it.

    Return "" if the content of the message was erased, so that it is not known any more. A reaction to a message whose
    text is not confirmed may come from somebody who has not seen it (Law 13): where that asks a question, it answers
    nothing; where it is a request, its answer is a command that comes too early, and its person is told so.
    `session`: the key of the session in which the reaction is heard: only its own messages count. `message`: the
    platform's id of the message. `key`: its idempotency key, if the platform reports it only now.
    """
    channel = dest.partition(":")[0]
    confirmed = parts.find_reported(tx, channel, message, key)
    posted = confirmed or _find_reserving_part(tx, dest, message)
    if posted is None or (posted.channel, posted.session_key) != (channel, session):
        return None
    op = entries.load(posted.op)
    if not op:
        return ""
    if "target_part" in op:  # an edit may have the receipt of what it edits
        op = entries.load(parts.get(tx, op["target_part"]).op)
    answer = next((answer for offered, answer in op.get("offered", ()) if is_same_emoji(offered, emoji)), None)
    is_unseen_question = confirmed is None and answer is not None and not answer.startswith("/")
    return None if is_unseen_question else answer


def _find_reserving_part(tx: Tx, dest: str, message: str) -> OutgoingPart | None:
    """Return the part whose place this message reserves, while it is not confirmed that its text has filled it."""
    head = parts.find_head(tx, dest)
    part = parts.get(tx, head.id) if head is not None else None
    is_reserved = part is not None and reservations.find_reserved_message(entries.load(part.op)) == message
    return part if is_reserved else None


def keep_buttons(tx: Tx, claim: ClaimRow, op: dict[str, Any]) -> dict[str, Any]:
    """Return the operation of an agent's edit, with the buttons of the message that it edits, if they are of use."""
    target = parts.get(tx, op["target_part"]) if claim.edits is not None and "target_part" in op else None
    if target is None or claim.edits is None or part_requests.is_over(tx, claim.edits):
        return op
    return op | {name: value for name, value in entries.load(target.op).items() if name in ("buttons", "closes")}


def take_away_buttons(tx: Tx, item: int) -> None:
    """Edit the message that asks about `item`, which is over, if that has buttons that can be taken away."""
    row = tx.get(ItemRow, "item_get", id=item)
    part = entries.load(row.body).get("button_part")
    if part is None:
        return
    posted = parts.get(tx, part)
    text = _find_current_text(tx, posted)
    if text is None:
        return
    claim = _add_quiet_claim(tx, posted, "edit", TAKEN_AWAY_REASON)
    ended = _add_ending(tx, posted, text, _describe_ending(row))
    _queue_part(tx, posted, claim, 0, {"kind": "edit", "buttons": [], "text": ended, "target_part": part})


def _add_quiet_claim(tx: Tx, posted: OutgoingPart, kind: ClaimKind, reason: str) -> int:
    return tx.get(
        AddedClaim, "claim_add", session=posted.session, turn=None, root=None, how="notice", kind=kind, late=0,
        spawn=None, conn=None, call=None, tool=None, args=None, dest=posted.dest, digest=None, text="",
        outcome="quiet", reason=reason, echo_of=None, seq=None, at=tx.now,
    ).id  # fmt: skip


def _queue_part(tx: Tx, posted: OutgoingPart, claim: int, n: int, fields: dict[str, Any]) -> None:
    op = {"session": posted.session_key, "address": posted.dest.partition(":")[2], **fields}
    tx.number(
        "part_add", line=parts.take_place(tx, posted.dest), claim=claim, n=n, lo=0, hi=0, channel=posted.channel,
        dest=posted.dest, key=secrets.token_hex(12), op=entries.dump(op), at=tx.now,
    )  # fmt: skip


def _find_current_text(tx: Tx, posted: OutgoingPart) -> str | None:
    """Return the text of the message, also after an edit by the agent; None if it was erased."""
    edit = tx.value(str, "part_of_newest_edit", claim=posted.claim)
    text = entries.load(posted.op if edit is None else edit).get("text")
    return text if isinstance(text, str) else None


def _add_ending(tx: Tx, posted: OutgoingPart, text: str, ending: str) -> str:
    """Return the text with a line that says how it ended, if the channel takes that in one message; else the text."""
    longer = f"{text}\n\n{ending}"
    legs = tx.cut(posted.dest, posted.session_key, longer, False, None) if tx.cut is not None else ()
    return longer if len(legs) < 2 else text


def _describe_ending(row: ItemRow) -> str:
    body = entries.load(row.body)
    if body.get("state") != "answered":
        return law.name_withdrawal(body.get("state") == "expired")
    options = tuple(option for option in body.get("options", ()) if isinstance(option, dict))
    is_outside = body.get("face") == part_requests.API
    return law.name_answer(body.get("answer"), options, str(body.get("by") or ""), is_outside)
