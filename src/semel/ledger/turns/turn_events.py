"""The events that are bound to a turn, as its prompt and its limits need them (Law 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from semel.law.limits import identify_person
from semel.ledger.storage.rows import BoundEvent
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries


@dataclass(frozen=True)
class TurnEvent:
    """An event that is bound to a turn. `role` and `entry_fields` come from its entry.

    `wakes`: the event asked for the turn.
    """

    event: int
    seq: int
    source: str
    kind: str
    sender: str | None
    text: str
    data: dict[str, Any]
    at: int
    role: str = "user"
    entry_fields: dict[str, Any] = field(default_factory=dict)
    wakes: bool = True

    @property
    def person(self) -> str | None:
        """Whose limits the event counts for; None if no person sent it."""
        sender = entries.read_object(entries.read_object(self.data, "data"), "from")
        return identify_person(self.source, self.kind, sender.get("person"), sender.get("id"), sender.get("role"))


def list_bound(tx: Tx, turn: int) -> tuple[TurnEvent, ...]:
    """Return the events that are bound to a turn, in order of acceptance."""
    events = []
    for event in tx.all(BoundEvent, "events_of_turn", turn=turn):
        payload = entries.load(event.payload)
        text = str(payload.pop("text", ""))
        more = entries.load(event.more)
        events.append(
            TurnEvent(
                event.id,
                event.seq,
                event.source,
                event.kind,
                event.sender,
                text,
                payload,
                event.at,
                event.role,
                more,
                bool(event.wakes),
            )
        )
    return tuple(events)
