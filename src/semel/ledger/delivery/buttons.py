"""Buttons under a request or a question: take them away once it is over, and say there how it ended (Laws 6, 13).

A leg whose operation has `closes` was cut for a channel that can do that (`Caps.button_edits`). The part of such a leg
is named in the item (`button_part`). When the item is over, the part's message is edited: its text with a line that
says how it ended, and no buttons. The edit is the part of a quiet claim of its own: it says nothing that the record
does not say in a notice, in the answer to a command or in the item; so its failure causes no notice.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from semel.law import permission_questions as law
from semel.ledger.delivery import parts
from semel.ledger.storage.rows import AddedClaim, ClaimRow, EntryRow, ItemRow, OutgoingPart, PartRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries, part_requests

if TYPE_CHECKING:
    from semel.ledger.delivery.cutting import Leg

REASON = "its buttons are taken away"
"""The reason of the quiet claim."""


def with_buttons(
    legs: Sequence[Leg], buttons: Sequence[dict[str, Any]], *, are_taken_away: bool = False
) -> tuple[Leg, ...]:
    """Return the legs with these buttons (`semel.gateway.ports.channel.Button`, as JSON objects) under the last one.

    `are_taken_away`: the channel can take them away once they are of no use.
    """
    if not legs or not buttons:
        return tuple(legs)
    more = {"buttons": list(buttons)} | ({"closes": True} if are_taken_away else {})
    return (*legs[:-1], replace(legs[-1], op={**legs[-1].op, **more}))


def find_button_part(tx: Tx, session: int, seq: int | None) -> int | None:
    """Return the part whose buttons are taken away later; None if there is none. `seq`: the entry that asks."""
    entry = tx.one(EntryRow, "entry_get", session=session, seq=seq) if seq is not None else None
    last = None
    if entry is not None and entry.claim is not None:
        last = next(reversed(tx.all(PartRow, "parts_of_claim", claim=entry.claim)), None)
    return last.id if last is not None and entries.load(last.op).get("closes") else None


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
    claim = tx.get(
        AddedClaim, "claim_add", session=row.session, turn=None, root=None, how="notice", kind="edit", late=0,
        spawn=None, conn=None, call=None, tool=None, args=None, dest=posted.dest, digest=None, text="",
        outcome="quiet", reason=REASON, echo_of=None, seq=None, at=tx.now,
    ).id  # fmt: skip
    op = {
        "kind": "edit", "session": posted.session_key, "address": posted.dest.partition(":")[2], "buttons": [],
        "text": _add_ending(tx, posted, text, _describe_ending(row)), "target_part": part,
    }  # fmt: skip
    tx.number(
        "part_add", line=parts.take_place(tx, posted.dest), claim=claim, n=0, lo=0, hi=0, channel=posted.channel,
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
