"""What was recorded for a running turn by others than the gateway that runs it."""

from __future__ import annotations

from dataclasses import dataclass

from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import turns


@dataclass(frozen=True)
class Intervention:
    """What people or other gateways have recorded for a session's running turn.

    `root`: the turn's root. `stop`: who stopped it; None: nobody. `steers`: messages wait to join it.
    """

    root: int
    stop: turns.StopRequest | None
    steers: bool


def read_intervention(tx: Tx, session: int) -> Intervention | None:
    """Return what was recorded for the session's running turn; None if no turn runs."""
    turn = turns.find_running_turn(tx, session)
    if turn is None:
        return None
    row = tx.get(SessionRow, "session_by_id", id=session)
    steers = bool(tx.pairs(int, int, "hearing_steering", session=session, before=row.seq + 1))
    return Intervention(turn.root, turns.find_stop(tx, row, turn), steers)
