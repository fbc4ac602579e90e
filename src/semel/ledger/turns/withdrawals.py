"""Withdraw a message that waits for its turn: no agent gets it, and what waits beside it is taken as usual.

While a turn runs, a withdrawal is only recorded (`hearing.busy` is 'withdrawn'). In the transaction that frees the
session, each withdrawn message is bound to a turn of its own, which ends there as cancelled (Laws 3, 12). So no agent
gets it with others, and a kill of the gateway loses no withdrawal. The evidence of such an end is the entry of the
message itself: whoever sent the message has withdrawn it, and nobody else needs to know. If the session is deleted or
the ledger is restored from a backup, the message is bound, with all else that waits, to a turn that no agent runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.law import turn as law
from semel.ledger.storage.rows import AddedTurn, EntryRole, Row, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns.ending import show_end

WITHDRAWAL_LEASE = "withdrawal"  # of a turn that begins and ends in one transaction
WITHDRAWN = "withdrawn"  # `hearing.busy` of such a message


class HeardMessage(Row):
    """A message that a session has. `turn`, `root`: the turn that took it, and its root; NULL while it waits. `busy`:
    'withdrawn' if nobody gets it."""

    event: int
    seq: int
    turn: int | None
    root: int | None
    role: EntryRole
    busy: str | None


@dataclass(frozen=True)
class Withdrawal:
    """What became of a message that was to be withdrawn.

    `is_withdrawn`: no agent gets it. `root`: otherwise, the root of the turn that had taken it before; None if the
    session has no such message.
    """

    is_withdrawn: bool
    root: int | None = None


def withdraw_message(tx: Tx, session: int, source: str, key: str) -> Withdrawal:
    """Withdraw a person's message, which has this source and key, if it waits. A repeat changes nothing."""
    message = tx.one(HeardMessage, "hearing_of_key", session=session, source=source, key=key)
    if message is None or message.role != "user":
        return Withdrawal(False)
    if message.busy == WITHDRAWN:
        return Withdrawal(True)
    if message.turn is not None:
        return Withdrawal(False, message.root)
    tx.run("hearing_withdraw", event=message.event, session=session)
    row = tx.get(SessionRow, "session_by_id", id=session)
    if row.turn is None:
        end_withdrawn(tx, row)
    elif row.wake_at is None:  # it asked for no turn; but `free_session` looks only if a wake is pending
        tx.run("session_wake", id=session, due=tx.now, since=tx.now)
    return Withdrawal(True)


def free_session(tx: Tx, row: SessionRow, turn: int) -> None:
    """Mark the session idle if `turn` is its running turn. Then its withdrawn messages end, in this transaction.

    `row`: the session as it was read in this transaction.
    """
    rev = tx.value(int, "session_idle", id=row.id, turn=turn)
    if rev is not None:
        entries.mark_session(tx, row.id, rev)
        if row.wake_at is not None:  # a message that was withdrawn during the turn always leaves a wake
            end_withdrawn(tx, tx.get(SessionRow, "session_by_id", id=row.id))


def end_withdrawn(tx: Tx, row: SessionRow) -> None:
    """Give each withdrawn message of a session in which no turn runs a turn of its own, which ends as cancelled."""
    withdrawn = tx.pairs(int, int, "hearing_withdrawn", session=row.id)
    for epoch, (event, seq) in enumerate(withdrawn, row.epoch + 1):
        turn = tx.get(
            AddedTurn, "turn_add", session=row.id, epoch=epoch, chapter=row.chapter, root=None, attempt=1, at=tx.now,
            day=None, how=None, spawn=None,
        )  # fmt: skip
        tx.run("turn_own_root", id=turn.id)
        tx.number("session_begin", id=row.id, turn=turn.id, lease=WITHDRAWAL_LEASE)
        tx.run("hearing_bind_one", event=event, session=row.id, turn=turn.id)
        entries.set_entry(tx, row.id, seq, more={"waiting": None})
        tx.run(
            "turn_end", id=turn.id, state=law.step("running", "cancelled"), stop=None, error=None, at=tx.now,
            evidence="stopped", row=seq, tokens=None, cost=None,
        )  # fmt: skip
        show_end(tx, row.id, [seq])
        entries.mark_session(tx, row.id, tx.number("session_idle", id=row.id, turn=turn.id))
    if withdrawn and not tx.exists("hearing_waits", session=row.id):
        tx.run("session_clear_wake", id=row.id)
