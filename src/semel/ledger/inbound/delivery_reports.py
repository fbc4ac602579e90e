"""Reports of a platform that a message failed after the platform had accepted it (Law 7).

A report is an event that is addressed to no session. It names a part of a message. In the session of that part, a
notice says that the message failed, as for a rejected part. A report that matches no part goes into quarantine.
"""

from __future__ import annotations

from collections.abc import Collection

from semel.law import delivery as law
from semel.ledger.delivery import other_channel, part_transitions, parts
from semel.ledger.delivery.part_transitions import PartMove
from semel.ledger.storage.rows import OutgoingPart
from semel.ledger.storage.sql import Tx

_REPORT = "it reports that a message failed"


def find_part(tx: Tx, channel: str, receipt_or_key: str) -> OutgoingPart | str:
    """Return the part that a report names by its receipt or its key; if there is none, return a text that says why."""
    row = parts.find_reported(tx, channel, receipt_or_key, receipt_or_key)
    if row is None or row.channel != channel:
        return f"{_REPORT}, but no message of this channel has that id"
    if row.failed is not None:
        return f"{_REPORT}, p{row.id}: e{row.failed} reported that before"
    if law.events_of_late_failure(row.state) is None:
        return f"{_REPORT}, p{row.id}, which is {row.state}"
    return row


def is_known(tx: Tx, channel: str, source: str, key: str, receipt_or_key: str) -> bool:
    """Return whether to accept a report: it was accepted before, or the part that it names can still fail."""
    return tx.exists("event_known", source=source, key=key) or not isinstance(
        find_part(tx, channel, receipt_or_key), str
    )


def mark_failed(tx: Tx, row: OutgoingPart, event: int, receipt: str, reason: str, channels: Collection[str]) -> None:
    """Record that a sent part failed. Add a notice for people and the agent.

    The person is also told on another of `channels`, if possible. `event`: the report; `receipt`: the platform's
    message id.
    """
    move = PartMove.of(row)
    move.fail(event, receipt, reason)
    part_transitions.write_move(tx, move)
    other_channel.send_failure_notice(tx, move, channels)
