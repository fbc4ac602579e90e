"""Read from the report of a command's end when it ended, and decide whether its reader must be told so."""

from __future__ import annotations

from collections.abc import Mapping

FINISHED_KIND = "exec.finished"
MAX_PUNCTUAL_MS = 60_000  # between a command's end and the time when its report was heard
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
