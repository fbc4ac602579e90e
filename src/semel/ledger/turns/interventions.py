"""What was recorded for a running turn by others than the gateway that runs it."""

from __future__ import annotations

from dataclasses import dataclass

from semel.ledger.storage.rows import SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript.views import LIFE_BITS
from semel.ledger.turns import limits, sessions, turns

STOP_LEASE = "stop"  # of a turn that begins and ends in the transaction that stops it


@dataclass(frozen=True)
class Intervention:
    """What people or other gateways have recorded for a session's running turn.

    `root`: the turn's root. `stop`: who stopped it; None: nobody. `steers`: whether messages wait to join it.
    """

    root: int
    stop: turns.StopRequest | None
    steers: bool


class NoSuchTurn(Exception):
    """The session never had a turn with this id."""


@dataclass(frozen=True)
class StopTarget:
    """What a stop is for.

    `root`: the root of the turn that runs; None: no turn that is meant runs. `before`: the stop is for the turn that is
    about to begin, which has no row yet; what asks for it was accepted before the entry with this seq. A turn that a
    limit puts off is not about to begin.
    """

    root: int | None = None
    before: int | None = None


def find_stop_target(tx: Tx, session: int, turn: int | None, seen: int | None = None) -> StopTarget:
    """Return what a stop is for.

    `turn`: the turn that is meant, or a later attempt of it; None means the one that runs. `seen`: the rev of the view
    in which the turn was seen. If the ledger was restored from a backup after `seen`, that turn has ended, and its id
    may be another turn's now (Law 14). Raises NoSuchTurn.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    if seen is not None and seen >> LIFE_BITS != row.rev >> LIFE_BITS:
        return StopTarget()
    running = turns.find_running_turn(tx, session)
    if turn is not None:
        named = tx.one(TurnRow, "turn_get", id=turn)
        if named is None or named.session != session:
            raise NoSuchTurn
        return StopTarget(named.root if running is not None and running.root == named.root else None)
    if running is not None:
        return StopTarget(running.root)
    is_next = turns.pending_wake(row) is not None and limits.find_hold_end(tx, session) is None
    return StopTarget(before=row.seq + 1 if is_next else None)


def stop_next(tx: Tx, session: int, order: turns.StopRequest, before: int) -> turns.GivenUp | int | None:
    """Stop the turn that is about to begin for events that were accepted before the entry `before`.

    It begins and ends here, as cancelled, with all that waits from before that entry: no agent is asked, however long
    its wake waits for further events. Later events wait on. Return the turn. If it has begun in the meantime, return
    its root: whoever runs it can stop it. None: nothing from before waits, a limit puts it off, or it has ended.
    """
    running = turns.find_running_turn(tx, session)
    if running is not None:
        return running.root if sessions.was_asked_for_before(tx, running.id, before) else None
    is_held = limits.find_hold_end(tx, session) is not None
    if is_held or not tx.exists("hearing_waits_before", session=session, seq=before):
        return None
    row = tx.get(SessionRow, "session_by_id", id=session)
    turn = turns.add_turn(tx, row, STOP_LEASE, root=None, attempt=1)
    tx.run("hearing_bind_before", session=session, turn=turn.id, before=before)
    turns.show_taken(tx, session, turn.id)
    if not tx.exists("hearing_waits", session=session):
        tx.run("session_clear_wake", id=session)
    tx.run("limited_drop", session=session)  # of a limit that holds nothing back any more
    turns.cancel(tx, session, turn, order.notice_text, order.seq)
    return turns.GivenUp(session, turn.id, row.key, row.agent, None)


def request_stop(tx: Tx, session: int, request: turns.StopRequest, root: int | None = None) -> bool:
    """Mark the running turn as stopped by a person: it is not tried again if it is lost. `root`: only of this root.

    Return whether there is such a turn.
    """
    turn = turns.find_running_turn(tx, session)
    if turn is None or root not in (None, turn.root):
        return False
    tx.run("turn_stopped", id=turn.id, by=request.by, seq=request.seq)
    return True


def read_intervention(tx: Tx, session: int) -> Intervention | None:
    """Return what was recorded for the session's running turn; None if no turn runs."""
    turn = turns.find_running_turn(tx, session)
    if turn is None:
        return None
    row = tx.get(SessionRow, "session_by_id", id=session)
    steers = bool(tx.pairs(int, int, "hearing_steering", session=session, before=row.seq + 1))
    return Intervention(turn.root, turns.find_stop(tx, row, turn), steers)
