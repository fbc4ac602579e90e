"""Read when a command ended or a firing was due, and decide whether the reader of that event must be told so.

Both are told only if the event was accepted more than a minute later.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

from semel.timing.walltime import BadSchedule, read_moment

FINISHED_KIND = "exec.finished"
FIRING_KIND = "schedule"
MAX_PUNCTUAL_MS = 60_000  # between a command's end, or a firing's due time, and the time when its event was accepted
MAX_TIME_MS = 253_402_300_799_000  # the end of the year 9999, the last time that can be formatted


def read_end(kind: str | None, data: object) -> int | None:
    """Return when a command ended, in ms since the epoch, as the report of its end says; None if it does not.

    `kind`, `data`: of the event, which any caller may have sent with any JSON.
    """
    ended = data.get("ended") if kind == FINISHED_KIND and isinstance(data, Mapping) else None
    if not isinstance(ended, int) or isinstance(ended, bool) or not 0 <= ended <= MAX_TIME_MS:
        return None
    return ended


def read_late_end(kind: str | None, data: object, heard_at: int) -> int | None:
    """Return when a command ended, as `read_end`, if its report was heard more than a minute later, else None.

    `heard_at`: in ms since the epoch.
    """
    ended = read_end(kind, data)
    return ended if ended is not None and heard_at - ended > MAX_PUNCTUAL_MS else None


def read_late_due(kind: str | None, data: object, heard_at: int) -> int | None:
    """Return when a schedule's firing was due, in ms since the epoch, if it ran more than a minute later, else None.

    `kind`, `data`, `heard_at`: as in `read_late_end`.
    """
    due = data.get("due") if kind == FIRING_KIND and isinstance(data, Mapping) else None
    if not isinstance(due, str):
        return None
    try:
        due_ms = read_moment(due, UTC) * 1000
    except (BadSchedule, OverflowError):
        return None
    return due_ms if 0 <= due_ms <= MAX_TIME_MS and heard_at - due_ms > MAX_PUNCTUAL_MS else None
