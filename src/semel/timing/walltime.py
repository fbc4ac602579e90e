"""Conversion between instants and the wall times of a zone.

An *instant* is a whole number of seconds since the Unix epoch. A *wall time* is what the zone's clock shows, as a naive
`datetime`. When the clock is set forward, the skipped wall times are a *gap*; when it is set back, wall times occur
twice. The caller looks the zone up (`semel.gateway.clock`), so that this module reads no files.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from datetime import UTC, datetime, timedelta, tzinfo


class BadSchedule(ValueError):
    """A schedule cannot be parsed, or never fires. The message says what to write."""


def format_utc(at: int) -> str:
    """Format a time in milliseconds since the Unix epoch for people: 2026-11-23 04:24:52 UTC."""
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def wall_at(zone: tzinfo, instant: int) -> datetime:
    """Return the wall time at an instant. Raises BadSchedule after the year 9999."""
    try:
        return datetime.fromtimestamp(instant, zone).replace(tzinfo=None)
    except (OverflowError, ValueError):
        raise BadSchedule("that is further away than the calendar goes, to the year 9999") from None


def find_occurrence(zone: tzinfo, wall: datetime, fold: int = 0) -> int | None:
    """Return the first (`fold` 0) or last (`fold` 1) instant at which the clock shows this wall time; None in a gap."""
    instant = _to_instant(zone, wall, fold)
    return instant if wall_at(zone, instant) == wall else None


def first_at(zone: tzinfo, wall: datetime) -> int:
    """Return the first instant at which the clock shows this wall time; for a time in a gap, the end of the gap."""
    at = find_occurrence(zone, wall)
    if at is not None:
        return at
    # In a gap, fold 0 uses the offset before the gap, which gives an instant after it; fold 1 is the reverse.
    around = range(_to_instant(zone, wall, 1), _to_instant(zone, wall, 0))
    return around[0] + bisect_left(around, True, key=lambda instant: wall_at(zone, instant) > wall)


def _to_instant(zone: tzinfo, wall: datetime, fold: int) -> int:
    try:
        return int(wall.replace(tzinfo=zone, fold=fold).timestamp())
    except OverflowError:
        raise BadSchedule("that is further away than the calendar goes, from the year 1 to 9999") from None


def find_day(zone: tzinfo, at: int) -> tuple[str, int]:
    """Return the date in this zone at an instant, like "2026-03-29", and the instant at which the next one begins."""
    midnight = wall_at(zone, at).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight.date().isoformat(), first_at(zone, midnight + timedelta(days=1))


def format_instant(instant: int) -> str:
    """Format an instant in UTC, like 2026-03-29T01:00:00Z. The event key of a firing has this form."""
    return f"{wall_at(UTC, instant).isoformat()}Z"


_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ]((?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.\d+)?)?)\s*(Z|[+-]\d\d:?\d\d)?", re.ASCII | re.I
)


def read_moment(text: str, zone: tzinfo) -> int:
    """Parse a date and time (RFC 3339) into an instant; without a UTC offset it is in `zone`. Raises BadSchedule."""
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise BadSchedule(f'{text!r} is not a date and time, like "2026-03-29 07:30" or "2026-03-29T07:30:00Z"')
    date, time, offset = match.groups()
    try:
        moment = datetime.fromisoformat(f"{date}T{time}{(offset or '').upper()}").replace(microsecond=0)
    except ValueError:
        raise BadSchedule(f"{text!r} is not a date and time that exists") from None
    return first_at(zone, moment) if offset is None else int(moment.timestamp())


def find_time_of_day(text: str, zone: tzinfo, after: int) -> int | None:
    """Return the first instant later than `after` at which it is the time of day `text`, like "18:00", in `zone`.

    None if `text` is not a time of day. A time in a gap counts as the end of the gap; of two passes, the first counts.
    """
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text.strip(), re.ASCII)
    if match is None:
        return None
    today = wall_at(zone, after).replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
    instants = (first_at(zone, today + timedelta(days=day)) for day in (0, 1, 2))
    return next(instant for instant in instants if instant > after)


def first_active_instant(zone: tzinfo, at: int, hours: tuple[int, int] | None) -> int:
    """Return the first instant at or after `at` whose wall time is within the active hours.

    `hours`: [from, to) in minutes of the day; they may span midnight (22:00 to 06:00). None: all hours are active.
    """
    if hours is None or hours[0] == hours[1]:
        return at
    wall, (low, high) = wall_at(zone, at), hours
    minute = wall.hour * 60 + wall.minute
    inside = low <= minute < high if low < high else (minute >= low or minute < high)
    if inside:
        return at
    opening = wall.replace(hour=low // 60, minute=low % 60, second=0)
    openings = (first_at(zone, opening + timedelta(days=day)) for day in (0, 1, 2))
    return next(opening_instant for opening_instant in openings if opening_instant >= at)


def read_hours(text: str) -> tuple[int, int]:
    """Parse hours like "08:00-22:00" into (from, to) in minutes of the day. Raises BadSchedule."""
    match = re.fullmatch(r"(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d)", text.strip(), re.ASCII)
    numbers = [int(n) for n in match.groups()] if match else []
    low, high = (numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]) if numbers else (0, 0)
    if not numbers or max(numbers[1], numbers[3]) > 59 or low >= 1440 or high > 1440 or low == high:
        raise BadSchedule(f'{text!r} is not a range of hours: write it like "08:00-22:00"')
    return low, high
