"""The events that are bound to a turn, as its prompt and its limits need them (Law 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.ledger.delivery.cutting import is_local
from semel.ledger.storage.rows import BoundEvent, EntryRow, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns.limits import Asker
from semel.text.content_blocks import remove_mentions

MAX_SEARCHED_ENTRIES = 50
"""How many of a session's newest entries are searched for one that was written in a group."""


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
    def blocks(self) -> list[dict[str, Any]]:
        """The content blocks as which a message came; [] if it came as text."""
        blocks = self.data.get("blocks")
        return [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []

    @property
    def typed_text(self) -> str:
        """The text without its mentions, as the agent's own history has it."""
        return remove_mentions(self.text, self.entry_fields.get("mentions"))

    @property
    def person(self) -> str | None:
        """The person whose limit the event counts toward; None if no person sent it."""
        return Asker.of_event(self.source, self.kind, self.data, self.event).name


def is_home_group(tx: Tx, row: SessionRow, events: Sequence[TurnEvent]) -> bool:
    """Return whether the session's home is a group, where only a reply is sure to reach the agent.

    `events`: those of a turn. If none is a message, as a schedule's firing, the newest entries tell.
    """
    data = [entries.read_object(event.data, "data") for event in events]
    if row.home is None or is_local(row.home) or any(event.kind == "message" for event in events):
        return any(fields.get("group") for fields in data)
    newest = tx.all(EntryRow, "entries_last", session=row.id, before=row.seq + 1, limit=MAX_SEARCHED_ENTRIES)
    written = [entries.read_object(entries.load(entry.more), "data") for entry in newest if entry.role == "user"]
    return any(fields.get("group") for fields in written)


def list_bound(tx: Tx, turn: int) -> tuple[TurnEvent, ...]:
    """Return the events that are bound to a turn, in order of acceptance."""
    return tuple(map(to_turn_event, tx.all(BoundEvent, "events_of_turn", turn=turn)))


def to_turn_event(event: BoundEvent) -> TurnEvent:
    """Return a row as an event of its turn."""
    payload = entries.load(event.payload)
    text = str(payload.pop("text", ""))
    return TurnEvent(
        event.id, event.seq, event.source, event.kind, event.sender, text, payload, event.at, event.role,
        entries.load(event.more), bool(event.wakes),
    )  # fmt: skip
