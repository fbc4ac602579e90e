"""Platform reports that a message failed after it was accepted (Law 7).

A report is an event that is addressed to no session. The part identifies the session, where a notice says that the
message failed, as for a rejected part. A report that matches no part is quarantined.
"""

from __future__ import annotations

from collections.abc import Collection

from semel.law import delivery as law
from semel.ledger.delivery import other_channel, part_transitions, parts
from semel.ledger.delivery.part_transitions import Move
from semel.ledger.storage.sql import Row, Tx

_TOLD = "it tells that a message failed"


def find(tx: Tx, channel: str, of: str) -> Row | str:
    """The part that a report refers to by receipt or key; or a string that says why there is none."""
    part = tx.value("part_of_receipt", receipt=of, channel=channel)
    part = part if part is not None else tx.value("part_by_key", key=of)
    row = parts.get(tx, int(part)) if part is not None else None
    if row is None or row.channel != channel:
        return f"{_TOLD}, and none that left by this channel is known by that id"
    if row.failed is not None:
        return f"{_TOLD}, p{row.id}: that was told before, by e{row.failed}"
    if law.failed_later(row.state) is None:
        return f"{_TOLD}, p{row.id}, which is {row.state}"
    return row


def known(tx: Tx, channel: str, source: str, key: str, of: str) -> bool:
    """Whether a report is a repeat or refers to a part."""
    return tx.one("event_known", source=source, key=key) is not None or not isinstance(find(tx, channel, of), str)


def mark(tx: Tx, row: Row, event: int, of: str, why: str, channels: Collection[str]) -> None:
    """Record that a sent part failed. People and the agent get a notice, if possible also on another of `channels`."""
    move = Move.of(row)
    move.fail(event, of, why)
    part_transitions.write(tx, move)
    other_channel.tell(tx, move, channels)
