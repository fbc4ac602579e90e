"""Overdue firings: those of schedules whose time has passed while no gateway ran, and what the next start does."""

from __future__ import annotations

from dataclasses import dataclass

from semel.ledger.inbound import schedules
from semel.ledger.storage.rows import LedgerRow, RestoreRow, ScheduleRow
from semel.ledger.storage.sql import Tx
from semel.timing.schedule import LATE_AFTER_S, MAX_MADE_UP_FIRINGS
from semel.timing.walltime import format_utc

OVERDUE_MS = 5000
"""A firing that has not happened so many ms after its time is overdue."""
MAX_LISTED = 100


@dataclass(frozen=True)
class OverdueFiring:
    """The firing of `schedule` that was `due` (ms). `text`: all of it in words, and what the next start does."""

    schedule: str
    session: str
    due: int
    text: str


def list_overdue(tx: Tx) -> list[OverdueFiring]:
    """Return the overdue firings, oldest first."""
    rows, _ = schedules.list_due(tx, tx.now - OVERDUE_MS, MAX_LISTED)
    return [OverdueFiring(row.name, row.session, row.due or 0, describe(tx, row)) for row in rows]


def is_overdue(tx: Tx, row: ScheduleRow) -> bool:
    """Return whether the next firing of a schedule is overdue."""
    is_firing = not schedules.is_paused(row) and not schedules.is_unconfigured(row)
    return is_firing and row.due is not None and row.due <= tx.now - OVERDUE_MS


def describe(tx: Tx, row: ScheduleRow) -> str:
    """Describe an overdue firing: when it was due, in UTC, and what the next start of a gateway does about it."""
    due = format_utc(row.due or 0)
    return f"schedule {row.name} was due at {due}; when a gateway starts, {_describe_next_start(tx, row)}"


def _describe_next_start(tx: Tx, row: ScheduleRow) -> str:
    """Say what happens to the missed firings of a schedule, as `timing.schedule.decide_firings` decides."""
    due = row.due or 0
    restored = tx.one(RestoreRow, "restore_last")
    if tx.get(LedgerRow, "ledger_get").copied is not None or (restored is not None and due <= restored.at):
        return "it does not run, since it may have run before the ledger was restored"
    if row.form == "at":
        is_skipped = row.downtime == "skip" and tx.now - due > LATE_AFTER_S * 1000
        return "it is skipped (downtime = skip)" if is_skipped else "it runs"
    return {
        "skip": f"only the newest firing runs, if it is at most {LATE_AFTER_S} s late (downtime = skip)",
        "once": "one firing runs for all that were missed (downtime = once)",
        "all": f"each one missed runs, at most the newest {MAX_MADE_UP_FIRINGS} (downtime = all)",
    }[row.downtime]
