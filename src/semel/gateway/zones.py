"""Look up time zones by name. It lives outside `semel.law`, which reads no files: the tz database is one."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from semel.timing.walltime import BadSchedule, Offset


@cache
def zone(name: str) -> Offset:
    """A function from an instant (s) to the zone's offset east of UTC (s). Raises BadSchedule for an unknown name."""
    if name == "UTC":
        return lambda at: 0
    try:
        info = ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # an unknown name, an odd one, a directory of the database
        raise _unknown(name) from None

    def offset(at: int) -> int:
        try:
            ahead = datetime.fromtimestamp(at, info).utcoffset()
        except (OverflowError, ValueError, OSError):
            raise BadSchedule("that is further away than the calendar goes, to the year 9999") from None
        return int(ahead.total_seconds()) if ahead is not None else 0

    return offset


@cache
def _known() -> frozenset[str]:
    """All zone names. Cached: reading them takes 50 ms, and every misspelt name needs them."""
    return frozenset(available_timezones())


def _unknown(name: str) -> BadSchedule:
    known = _known()
    if not known:
        return BadSchedule(f"{name!r} cannot be looked up: there is no tz database here; pip install tzdata")
    near = difflib.get_close_matches(name[:50], sorted(known), 1, 0.6)
    hint = f'; did you mean "{near[0]}"?' if near else '; write it like "Europe/Berlin"'
    return BadSchedule(f"{name!r} is no time zone{hint}")


def local(at: int, name: str) -> str:
    """An instant (s) as local time with its zone: 2026-03-29 07:30 Europe/Berlin."""
    there = datetime.fromtimestamp(at + zone(name)(at), UTC)
    return f"{there:%Y-%m-%d %H:%M} {name}"
