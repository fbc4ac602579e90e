"""Rename, archive and delete sessions, and begin chapters (docs/sessions.md).

Deleting has two phases. First, one short transaction ends the session's turn, binds waiting events to it, and hides the
session. Then its content is erased piece by piece (`semel.ledger.admin.erase`). The facts that the laws need stay: that
an event was accepted (source, key, digest), to which turn it is bound, that something was said and sent, and every
number.
"""

from __future__ import annotations

from semel.ledger.storage.rows import HomeSession, ListedSchedule, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import jobs, turns

MAX_TITLE_CHARS = 200


class RevNotReached(Exception):
    """Somebody says that they saw a rev which the session does not have yet. The message names the newest one."""


def normalise_title(title: str) -> str:
    """Return a title as it is listed: on one line, with single blanks, cut to the maximal length."""
    return " ".join(title.split())[:MAX_TITLE_CHARS]


def rename(tx: Tx, session: int, title: str | None) -> None:
    """Set a title that the agent cannot change; None lets the agent name the session again."""
    tx.run("session_rename", id=session, title=title, named=int(title is not None))
    entries.touch_session(tx, session)


def archive(tx: Tx, session: int, archived: bool) -> None:
    """Archive a session or, if `archived` is false, bring it back. A new event also brings an archived session back."""
    row = tx.get(SessionRow, "session_by_id", id=session)
    if (row.archived is not None) != archived:
        tx.run("session_archive", id=session, archived=tx.now if archived else None)
        entries.touch_session(tx, session)


def mark_seen(tx: Tx, session: int, rev: int) -> bool:
    """Record that the owner has seen the session up to a rev. Return whether that is news: an earlier rev is none.

    It takes no rev itself, because the view does not change by it. Raises RevNotReached.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    if rev > row.rev:
        raise RevNotReached(f"the session's newest rev is {row.rev}, so nobody has seen {rev}")
    return bool(tx.count_changed("session_set_seen", id=session, rev=rev))


def begin_chapter(tx: Tx, row: SessionRow) -> None:
    """Begin a chapter with the next entry. In it, the agent starts without memory and is told nothing from before."""
    tx.number("session_new_chapter", id=row.id)
    tx.run("entries_prompted", session=row.id, upto=row.seq)
    entries.touch_session(tx, row.id)


def cancel_orphaned_turn(tx: Tx, session: int, lease: str, text: str, stop_seq: int, earlier: bool = False) -> bool:
    """Cancel a session's turn that this gateway does not run. Return False if there is no such turn.

    `lease`: the lease under which this gateway runs its own turns. `text`: the notice. `stop_seq`: the entry of the
    command that asks for the stop; the command itself is answered at home, so the notice is not sent there. The turn is
    cancelled only if an event that was accepted before the command asked for it; or, with `earlier`, only if it belongs
    to an earlier chapter.
    """
    row = tx.one(SessionRow, "session_by_id", id=session)
    if row is None or row.turn is None or row.lease == lease:
        return False
    turn = tx.one(TurnRow, "turn_get", id=row.turn)
    if turn is None:
        return False
    is_meant = turn.chapter < row.chapter if earlier else was_asked_for_before(tx, turn.id, stop_seq)
    if not is_meant:
        return False
    turns.cancel(tx, row.id, turn, text, stop_seq)
    return True


def was_asked_for_before(tx: Tx, turn: int, seq: int) -> bool:
    """Return whether an event whose entry is before `seq` asked for the turn, and was not only taken along by it."""
    return tx.exists("hearing_bound_before", turn=turn, seq=seq)


def delete(tx: Tx, session: int) -> bool:
    """Delete a session: hide it from view and stop everything that runs in it.

    Return False if it was already deleted.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    if row.deleted is not None:
        return False
    _bind_waiting(tx, row)
    if (running := tx.one(TurnRow, "turn_get", id=row.turn) if row.turn is not None else None) is not None:
        turns.cancel_deleted(tx, session, running)
    tx.run("session_clear_wake", id=session)
    tx.run("commands_void", session=session)
    for schedule in tx.all(ListedSchedule, "schedules_of_session", session=row.key):
        if schedule.source != "config":
            tx.run("schedule_drop", id=schedule.id)
    for job in jobs.list_open_of_session(tx, session):
        tx.run("job_cancel", run=job.run, by="the deletion of its session")
    begin_chapter(tx, row)
    tx.run("session_delete", id=session, at=tx.now)
    tx.run("erasure_put", session=session)
    entries.touch_session(tx, session)
    return True


def _bind_waiting(tx: Tx, row: SessionRow) -> None:
    """Bind waiting events to the turn that is cancelled with the session, so that no accepted event is lost (Law 3)."""
    if not tx.number("session_waiting_count", id=row.id):
        return
    if row.turn is not None:
        tx.run("hearing_bind", session=row.id, turn=row.turn)
        return
    turn = turns.add_turn(tx, row, lease="", root=None, attempt=1)
    tx.run("hearing_bind", session=row.id, turn=turn.id)
    turns.cancel_deleted(tx, row.id, turn)


def list_sessions_to_resume(tx: Tx) -> list[int]:
    """Return the ids of the sessions in which a starting gateway has something to do.

    First come the sessions whose turn was cut off, then those with a pending wake.
    """
    busy = [row.id for row in tx.all(HomeSession, "session_busy")]
    return busy + tx.values(int, "session_due")
