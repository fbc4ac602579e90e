"""A session's own life: renamed, put away, deleted (docs/sessions.md).

Deleting is two things. At once, in one short transaction: its turn ends, what waits is bound to it, and nobody sees
it any more. Then, piece by piece (`semel.ledger.admin.erase`): its content goes. What the laws count stays: that an
event was heard (source, key, digest), which turn took it, that something was said and left, and every number.
"""

from __future__ import annotations

from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import jobs, turns

TITLE_MOST = 200  # characters


def in_a_line(title: str) -> str:
    """A title as it is listed, whoever gave it."""
    return " ".join(title.split())[:TITLE_MOST]


def rename(tx: Tx, session: int, title: str | None) -> None:
    """A person's title stays until a person changes it; without one, the agent gives it."""
    tx.run("session_rename", id=session, title=title, named=int(title is not None))
    entries.touch_session(tx, session)


def archive(tx: Tx, session: int, away: bool) -> None:
    """Put it away, or bring it back. Whatever is heard there brings it back, too."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    if (row.archived is not None) != away:
        tx.run("session_archive", id=session, archived=tx.now if away else None)
        entries.touch_session(tx, session)


def new_chapter(tx: Tx, row: Row) -> None:
    """The next entry begins a chapter: the agent starts without memory, and is told nothing of before."""
    tx.value("session_new_chapter", id=row.id)
    tx.run("entry_told", session=row.id, upto=row.seq)
    entries.touch_session(tx, row.id)


def stop_left(tx: Tx, session: int, lease: str, why: str, by: int, earlier: bool = False) -> bool:
    """Cancel a turn that no run of this gateway (`lease`) has; `earlier`: only one of an earlier chapter.

    `by`: the entry of the command that asks for it, and is answered at home.
    """
    row = tx.one("session_by_id", id=session)
    if row is None or row.turn is None or row.lease == lease:
        return False
    turn = tx.one("turn_get", id=row.turn)
    if turn is None or (earlier and turn.chapter >= row.chapter):
        return False
    turns.cancel(tx, row.id, turn, why, by)
    return True


def delete(tx: Tx, session: int) -> bool:
    """Nobody sees it from here on, and nothing of it runs. False: it was deleted before."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    if row.deleted is not None:
        return False
    _bind_rest(tx, row)
    if (running := tx.one("turn_get", id=row.turn) if row.turn is not None else None) is not None:
        turns.cancel_deleted(tx, session, running)
    tx.run("session_clear_wake", id=session)
    tx.run("commands_void", session=session)
    for schedule in tx.all("schedules_of_session", session=row.key):
        if schedule.source != "config":
            tx.run("schedule_drop", id=schedule.id)
    for job in jobs.of_session(tx, session):
        tx.run("job_cancel", run=job.run, by="the deletion of its session")
    new_chapter(tx, row)
    tx.run("session_delete", id=session, at=tx.now)
    tx.run("erasure_put", session=session)
    entries.touch_session(tx, session)
    return True


def _bind_rest(tx: Tx, row: Row) -> None:
    """What waits is bound to the turn that is cancelled with it: an accepted event is never nowhere (Law 3)."""
    if not tx.value("session_waiting_count", id=row.id):
        return
    if row.turn is not None:
        tx.run("hearing_bind", session=row.id, turn=row.turn)
        return
    turn = turns.add(tx, row, lease="", root=None, attempt=1)
    tx.run("hearing_bind", session=row.id, turn=turn.id)
    turns.cancel_deleted(tx, row.id, turn)
