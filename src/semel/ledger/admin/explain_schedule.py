"""The part of `semel why` about schedules: what a schedule's name stands for, and what its next firing is."""

from __future__ import annotations

from semel.ledger.admin import overdue
from semel.ledger.admin.explain_part import make_line
from semel.ledger.inbound.schedules import default_session_key, is_paused, is_unconfigured
from semel.ledger.storage.rows import EntryRow, EventRow, ScheduleRow, SessionRow
from semel.ledger.storage.sql import Tx
from semel.text.json_types import Json
from semel.timing.walltime import format_utc

SOURCE = "schedule:"
_NOT_CONFIGURED = "the configuration does not name it any more, so it does not fire"
MAX_SEARCHED_ENTRIES = 100
"""How many of the newest entries of a schedule's own session are searched for its last firing."""


def find_schedule(tx: Tx, ref: str) -> ScheduleRow | None:
    """Return the schedule that `ref` names, as NAME or as the source of its firings, `schedule:NAME`."""
    return tx.one(ScheduleRow, "schedule_get", name=ref.removeprefix(SOURCE))


def find_removed_firing(tx: Tx, ref: str) -> int | None:
    """Return the last firing of a schedule that there is no more, if it had a session of its own; else None."""
    name = ref.removeprefix(SOURCE)
    session = tx.one(SessionRow, "session_by_key", key=default_session_key(name))
    if session is None or find_schedule(tx, name) is not None:
        return None
    newest = tx.all(EntryRow, "entries_last", session=session.id, before=session.seq + 1, limit=MAX_SEARCHED_ENTRIES)
    for event in (entry.event for entry in newest if entry.event is not None):
        if tx.get(EventRow, "event_get", id=event).source == f"{SOURCE}{name}":
            return event
    return None


def describe_unfired(tx: Tx, schedule: ScheduleRow) -> str:
    if is_unconfigured(schedule):
        return f"schedule {schedule.name!r} has not fired; {_NOT_CONFIGURED}"
    if is_paused(schedule):
        return f"{_describe_pause(schedule)}; it has not fired before"
    if overdue.is_overdue(tx, schedule):
        return f"{overdue.describe(tx, schedule)}; it has not fired before"
    if schedule.due is not None:
        return f"schedule {schedule.name!r} has not fired; when it is due: semel schedules show {schedule.name}"
    return (
        f"schedule {schedule.name!r} is over and never fired: its time was past when the gateway first read it, or was "
        f"missed and skipped (then a notice says so: semel show {schedule.session})"
    )


def describe_next_firing(tx: Tx, schedule: ScheduleRow) -> list[Json]:
    """Return a line about a schedule's next firing, or which says that it is paused; [] if it is over."""
    if is_unconfigured(schedule):
        return [make_line(None, f"schedule {schedule.name}: {_NOT_CONFIGURED}")]
    if is_paused(schedule):
        return [make_line(None, _describe_pause(schedule))]
    if schedule.due is None:
        return []
    text = f"its next firing is due at {format_utc(schedule.due)}"
    if overdue.is_overdue(tx, schedule):
        text = overdue.describe(tx, schedule)
    return [make_line(schedule.due, text)]


def _describe_pause(schedule: ScheduleRow) -> str:
    why = f" ({schedule.error})" if schedule.error else ""
    return f"schedule {schedule.name} is paused{why}: it fires again after semel schedules resume {schedule.name}"


def describe_removal(name: str) -> list[Json]:
    """Return a line which says that there is no schedule of this name any more."""
    text = f"schedule {name} is gone: it was removed; its firings stay in this session"
    return [make_line(None, text)]
