"""Drop a notice that something did not, or may not, have arrived, if that was settled before the notice left (Law 7).

Likewise drop a reaction that offers an answer to a request (buttons.py) if the request was over before it left.

A notice may wait for long: its channel is away, or asks for a pause. Meanwhile the platform reports the message, or a
person decides about it. This is asked in the transaction that would mark the notice as departing. So either the notice
has left before the settlement was recorded, or it does not leave. Its entry stays, as that of a dropped message.
"""

from __future__ import annotations

from semel.ledger.delivery import buttons, held_notice, other_channel, part_transitions, parts, reservations
from semel.ledger.delivery.part_transitions import PartMove
from semel.ledger.storage.rows import OutgoingPart, PartRow
from semel.ledger.storage.sql import Tx

REASON_SUFFIX = " settled"
"""Ends the reason of a dropped notice's claim: what is missing later has a notice of its own."""
ERROR = "what it told of was settled before it left"


def drop_if_stale(tx: Tx, row: OutgoingPart) -> bool:
    """Drop a late offer, or the parts of a queued notice of which nothing has left, if it is stale. Return whether."""
    if row.state == "queued" and buttons.is_late_offer(tx, row):
        _drop_part(tx, row)
        return True
    may_have_left = row.n > 0 or row.first is not None or row.marked
    if row.state != "queued" or row.how != "notice" or may_have_left or not _is_stale(tx, row):
        return False
    for id in [part.id for part in tx.all(PartRow, "parts_of_claim", claim=row.claim)]:
        part = parts.get(tx, id)
        _drop_part(tx, part)
        reservations.delete_placeholder(tx, part)
    tx.run("claim_because", id=row.claim, reason=f"{row.reason}{REASON_SUFFIX}")
    return True


def _drop_part(tx: Tx, row: OutgoingPart) -> None:
    move = PartMove.of(row)
    move.drop_before_departure(ERROR)
    part_transitions.write_move(tx, move)


def _is_stale(tx: Tx, row: OutgoingPart) -> bool:
    reason = row.reason or ""
    if reason.startswith(held_notice.REASON_PREFIX):
        return not held_notice.is_missing_still(tx, row.dest, reason)
    if reason.startswith(other_channel.REASON_PREFIX):
        return not other_channel.is_missing_still(tx, row.claim)
    return False
