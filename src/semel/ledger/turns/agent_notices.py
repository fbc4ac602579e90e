"""What the agent of a running turn reports about itself, such as that its model's server is busy and it tries again.

Or that it has shown nothing for long, as an agent does whose key is refused and that repeats its request.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.ledger.storage.rows import ItemRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

SILENT_MS = 30_000  # a turn in which the agent has shown nothing for so long is told


@dataclass(frozen=True)
class AgentNotice:
    """A statement of an agent about itself. `at`: when it came, in ms; None if an older Semel recorded it."""

    text: str
    at: int | None


def find_current_notice(tx: Tx, turn: int) -> AgentNotice | None:
    """Return what the agent of a turn reported about itself last; None if text or a tool call came after it."""
    item = tx.one(ItemRow, "turn_current_notice", turn=turn)
    return None if item is None else AgentNotice(item.text, entries.load(item.body).get("at"))


def is_silent(tx: Tx, turn: int, started: int) -> bool:
    """Whether the agent has shown nothing in a running turn, SILENT_MS after its start. `started`: in ms."""
    return tx.now - started > SILENT_MS and not tx.exists("turn_shows", turn=turn)
