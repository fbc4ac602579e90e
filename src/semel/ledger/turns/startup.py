"""What a gateway must take up when it starts."""

from __future__ import annotations

from semel.ledger.storage.sql import Tx


def unfinished(tx: Tx) -> list[int]:
    """Sessions whose turn was cut off, then sessions with a pending wake."""
    busy = [int(r.id) for r in tx.all("session_busy")]
    return busy + [int(r.id) for r in tx.all("session_due")]
