"""Conversion between instants and the wall times of a zone.

An instant is a whole number of seconds since the Unix epoch. A *wall* time is what the zone's clock shows, encoded as
the instant at which a UTC clock shows the same. A zone is a function from an instant to its offset east of UTC in
seconds. The caller builds it from the tz database, so that this module reads no files.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Offset = Callable[[int], int]
DAY = 86_400


class BadSchedule(ValueError):
    """A schedule that cannot be read, or never fires; the message says what to write."""


def occurrences(zone: Offset, wall: int) -> tuple[int, ...]:
    """The instants at which the zone's clock shows this wall time: none in a gap, two in an overlap."""
    found = {wall - offset for offset in (zone(wall - DAY), zone(wall + DAY))}
    return tuple(sorted(at for at in found if at + zone(at) == wall))


def first_at(zone: Offset, wall: int) -> int:
    """The instant that a wall time denotes: its first occurrence, or the end of the gap in which it lies."""
    found = occurrences(zone, wall)
    if found:
        return found[0]
    before, low, high = zone(wall - DAY), wall - DAY, wall + DAY
    while high - low > 1:  # bisect for the instant at which the offset changed
        middle = (low + high) // 2
        low, high = (middle, high) if zone(middle) == before else (low, middle)
    return high


def date_of_day(day: int) -> tuple[int, int, int]:
    """(year, month, day of month) of a day since 1970-01-01, in the Gregorian calendar."""
    # Years are counted from March on, so that a leap day is the last of its year; eras of 400 years repeat.
    era, rest = divmod(day + 719_468, 146_097)
    year = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
    of_year = rest - (365 * year + year // 4 - year // 100)
    march = (5 * of_year + 2) // 153
    month = march + 3 if march < 10 else march - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * march + 2) // 5 + 1


def day_of(year: int, month: int, date: int) -> int:
    """The inverse of `date_of_day`."""
    early = month <= 2
    era, rest = divmod(year - early, 400)
    of_year = (153 * (month + 9 if early else month - 3) + 2) // 5 + date - 1
    return era * 146_097 + rest * 365 + rest // 4 - rest // 100 + of_year - 719_468


def iso(at: int) -> str:
    """Format an instant in UTC, like 2026-03-29T01:00:00Z. A firing's event key has this form."""
    day, second = divmod(at, DAY)
    year, month, date = date_of_day(day)
    return f"{year:04}-{month:02}-{date:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?\s*(Z|[+-]\d\d:?\d\d)?", re.ASCII | re.I
)


def read_moment(text: str, zone: Offset) -> int:
    """Parse a date and time (RFC 3339; without an offset, it is in `zone`) into an instant. Raises BadSchedule."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise BadSchedule(f'{text!r} is no date and time: write it like "2026-03-29 07:30" or "2026-03-29T07:30:00Z"')
    year, month, date, hour, minute = (int(found[n]) for n in range(1, 6))
    second = int(found[6] or 0)
    fits = year >= 1 and 1 <= month <= 12 and hour < 24 and minute < 60 and second < 60
    day = day_of(year, month, date) if fits else 0
    if not fits or date_of_day(day) != (year, month, date):
        raise BadSchedule(f"{text!r} is a date or time that no calendar has")
    wall = day * DAY + hour * 3600 + minute * 60 + second
    if found[7] is None:
        return first_at(zone, wall)
    if found[7] in "Zz":
        return wall
    sign, digits = found[7][0], found[7][1:].replace(":", "")
    return wall - (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if sign == "-" else 1)


def active(zone: Offset, at: int, hours: tuple[int, int] | None) -> int:
    """The first instant at or after `at` whose wall time is within the active hours.

    `hours`: [from, to) in minutes of the day; they may span midnight (22:00 to 06:00). None: always active.
    """
    if hours is None or hours[0] == hours[1]:
        return at
    minute = (at + zone(at)) % DAY // 60
    low, high = hours
    inside = low <= minute < high if low < high else (minute >= low or minute < high)
    if inside:
        return at
    day = (at + zone(at)) // DAY
    starts = (first_at(zone, (day + n) * DAY + low * 60) for n in (0, 1, 2))
    return next(one for one in starts if one >= at)


def read_hours(text: str) -> tuple[int, int]:
    """Parse hours like "08:00-22:00" into (from, to) in minutes of the day. Raises BadSchedule."""
    found = re.fullmatch(r"(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d)", text.strip(), re.ASCII)
    numbers = [int(n) for n in found.groups()] if found else []
    low, high = (numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]) if numbers else (0, 0)
    if not numbers or max(numbers[1], numbers[3]) > 59 or low >= 1440 or high > 1440 or low == high:
        raise BadSchedule(f'{text!r} are no hours: write them like "08:00-22:00"')
    return low, high
