"""What a gateway finds when it starts."""

from __future__ import annotations

from semel.ledger.storage.sql import Tx


def unfinished(tx: Tx) -> list[int]:
    """Sessions whose turn was cut off, and sessions with something to do."""
    busy = [int(r.id) for r in tx.all("session_busy")]
    return busy + [int(r.id) for r in tx.all("session_due")]
