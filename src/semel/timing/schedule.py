"""Schedules: compute when a cron expression, an interval or a one-shot is due, and what to do about missed firings.

Instants, wall times and zones are defined in `semel.timing.walltime`.

When daylight saving time begins or ends, a cron time of day keeps its meaning:

- A wall time that does not exist fires at the first instant after the gap. Several such times fire once there.
- A wall time that occurs twice fires at its first occurrence only.
- A cron that fires in every hour of the day (`*/5 * * * *`, `30 * * * *`) is not a time of day but a *rhythm*: it fires
  in both passes of an hour that occurs twice, and a gap adds no firing.

A cron expression has five fields, `minute hour day-of-month month day-of-week`, with `*`, numbers, names (`MON`,
`JAN`), ranges, lists and steps; Sunday is 0 or 7. If both day fields are restricted (neither begins with `*`), a day
that matches either one counts, as in every cron since Vixie's. `@hourly @daily @midnight @weekly @monthly @yearly
@annually` are supported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from semel.timing.durations import parse_duration
from semel.timing.walltime import DAY, BadSchedule, Offset, date_of_day, first_at, occurrences, read_moment

Form = Literal["cron", "at", "every"]

MAX_YEARS_AHEAD = 8  # the longest gap between two 29ths of February (1896 to 1904)
MAX_EVERY = 366 * DAY

FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")),
    ("day of week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")),
)
CRON_SHORTCUTS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MOST_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


# ---------------------------------------------------------------- cron


@dataclass(frozen=True)
class Cron:
    """A parsed cron expression."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either: bool  # both day fields are restricted: a day that matches one of them is enough

    @property
    def rhythm(self) -> bool:
        """Whether it fires in every hour of the day."""
        return len(self.hours) == 24

    def on(self, day: int) -> bool:
        """Whether it fires on this day (days since the epoch)."""
        _, month, date = date_of_day(day)
        if month not in self.months:
            return False
        by_date, by_week = date in self.days, (day + 4) % 7 in self.weekdays
        return (by_date or by_week) if self.either else (by_date and by_week)


def read_cron(text: str) -> Cron:
    """Parse a cron expression. Raises BadSchedule."""
    plain = CRON_SHORTCUTS.get(text.strip().lower(), text)
    fields = plain.split()
    if len(fields) != 5:
        raise BadSchedule(
            f"{text!r} is no cron expression: write 5 fields, minute hour day-of-month month day-of-week, like "
            f'"30 7 * * MON-FRI", or one of {", ".join(CRON_SHORTCUTS)}'
        )
    sets = [_field(told, *what) for told, what in zip(fields, FIELDS, strict=True)]
    days, months, weekdays = sets[2], sets[3], frozenset(n % 7 for n in sets[4])
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    if not either and all(min(days) > _MOST_DAYS[month - 1] for month in months):
        raise BadSchedule(f"{text!r} never fires: none of its months has such a day")
    return Cron(tuple(sorted(sets[0])), tuple(sorted(sets[1])), days, months, weekdays, either)


def _field(told: str, name: str, least: int, most: int, names: tuple[str, ...]) -> frozenset[int]:
    found: set[int] = set()
    for one in told.split(","):
        span, slash, step = one.partition("/")
        if slash and not (step.isascii() and step.isdigit() and 0 < int(step) <= most):
            raise _wrong(one, name, f"a step is a number from 1 to {most}")
        low, dash, high = span.partition("-")
        if span == "*":
            first, last = least, most if name != "day of week" else 6
        else:
            first = _number(low, one, name, least, most, names)
            last = _number(high, one, name, least, most, names) if dash else (most if slash else first)
            if dash and last == 0 and name == "day of week":
                last = 7  # SAT-SUN
        if first > last:
            raise _wrong(one, name, "a range goes from the lower to the higher")
        found.update(range(first, last + 1, int(step) if slash else 1))
    return frozenset(found)


def _number(word: str, one: str, name: str, least: int, most: int, names: tuple[str, ...]) -> int:
    if word.upper() in names:
        return names.index(word.upper()) + (1 if name == "month" else 0)
    if word.isascii() and word.isdigit() and len(word) < 4 and least <= int(word) <= most:
        return int(word)
    also = f", or {names[0]} to {names[-1]}" if names else ""
    raise _wrong(one, name, f"write {least} to {most}{also}")


def _wrong(one: str, name: str, rule: str) -> BadSchedule:
    return BadSchedule(f"{one!r} is no {name} of a cron expression: {rule}")


def next_cron(cron: Cron, zone: Offset, after: int) -> int | None:
    """The first instant later than `after` at which the cron fires; None if it does not within about eight years."""
    if not cron.rhythm:
        return _first(cron, after + zone(after), lambda wall: first_at(zone, wall), after)
    # A rhythm fires at every occurrence of its times: at the first ones, or at the second, whichever comes sooner.
    low = after + min(zone(after), zone(after + DAY))
    early = _first(cron, low, lambda wall: next(iter(occurrences(zone, wall)), None), after)
    late = _first(cron, low, lambda wall: next(iter(occurrences(zone, wall)[::-1]), None), after)
    return min((one for one in (early, late) if one is not None), default=None)


def _first(cron: Cron, wall: int, instant: Callable[[int], int | None], after: int) -> int | None:
    for one in _walls(cron, wall):
        at = instant(one)
        if at is not None and at > after:
            return at
    return None


def _walls(cron: Cron, after: int) -> Iterator[int]:
    """The wall times of a cron that are later than `after`, in order."""
    today = after // DAY
    for day in range(today, today + MAX_YEARS_AHEAD * 366 + 2):
        if not cron.on(day):
            continue
        for hour in cron.hours:
            start = day * DAY + hour * 3600
            if start + 3600 <= after:
                continue
            for minute in cron.minutes:
                if start + minute * 60 > after:
                    yield start + minute * 60


def read_every(text: str) -> int:
    """Parse an interval ("90s", "10m", "2h", "1d", "1w", or a number of seconds) into seconds. Raises BadSchedule."""
    seconds = parse_duration(text)
    if seconds is None or not seconds.is_integer() or not 1 <= seconds <= MAX_EVERY:
        raise BadSchedule(f'{text!r} is no interval: write it like "90s", "10m", "2h" or "1d", at most 366 days')
    return int(seconds)


# ---------------------------------------------------------------- schedules


@dataclass(frozen=True)
class Schedule:
    """A parsed schedule. An interval counts from `anchor`, the instant at which the schedule was created."""

    form: Form
    zone: Offset
    cron: Cron | None = None
    moment: int = 0
    every: int = 0
    anchor: int = 0

    def next(self, after: int) -> int | None:
        """The first instant later than `after` at which the schedule is due; None if there is none."""
        if self.form == "at":
            return self.moment if self.moment > after else None
        if self.form == "every":
            return self.anchor + max(1, (after - self.anchor) // self.every + 1) * self.every
        assert self.cron is not None
        return next_cron(self.cron, self.zone, after)


def read(form: Form, spec: str, zone: Offset, anchor: int = 0) -> Schedule:
    """Parse the `spec` that a person wrote. Raises BadSchedule."""
    if form == "cron":
        return Schedule(form, zone, cron=read_cron(spec), anchor=anchor)
    if form == "at":
        return Schedule(form, zone, moment=read_moment(spec, zone), anchor=anchor)
    return Schedule(form, zone, every=read_every(spec), anchor=anchor)


def newest(schedule: Schedule, since: int, until: int, most: int) -> tuple[list[int], bool]:
    """Return (the newest due instants from `since` to `until` inclusive, at most `most`; whether there are more).

    The cost depends on `most`, not on the length of the period: a gateway may have been down for years.
    """
    span = most * 60
    while True:
        start = max(since, until - span)
        found = list(_between(schedule, start, until, 4 * most))
        if start == since or len(found) > most:
            break
        span *= 4
    while len(found) > 4 * most:  # the schedule fires more than once a minute: only look nearer to `until`
        start = (start + until) // 2
        found = list(_between(schedule, start, until, 4 * most))
    return found[-most:], len(found) > most or start > since


def _between(schedule: Schedule, since: int, until: int, most: int) -> Iterator[int]:
    at = schedule.next(since - 1)
    for _ in range(most + 1):
        if at is None or at > until:
            return
        yield at
        at = schedule.next(at)


# ---------------------------------------------------------------- what was missed

Downtime = Literal["skip", "once", "all"]
LATE = 60
"""Seconds after which a firing counts as missed: the gateway was down, or the machine slept."""
MAX_MADE_UP_FIRINGS = 100
"""The maximum number of missed firings that the policy `all` makes up for: the newest ones."""


@dataclass(frozen=True)
class Firings:
    """The firings to run now. `missed`: how many others are skipped. `more`: even more were due than were counted."""

    fire: tuple[int, ...]
    missed: int = 0
    more: bool = False
    doubtful: bool = False  # the missed firings may have run before the ledger was restored from a backup


def doubtful(schedule: Schedule, due: int, until: int) -> Firings:
    """Firings due before the ledger was restored from a backup: they may have run already, so none runs (Law 14)."""
    found, more = newest(schedule, due, until, MAX_MADE_UP_FIRINGS)
    return Firings((), len(found), more, doubtful=True)


def decide_firings(schedule: Schedule, due: int, now: int, downtime: Downtime) -> Firings:
    """Choose which of the firings from `due` to `now` to run, by the policy for downtime."""
    found, more = newest(schedule, due, now, MAX_MADE_UP_FIRINGS)
    if not found:
        return Firings(())
    if downtime == "all":
        return Firings(tuple(found), 0, more)
    fires = downtime == "once" or now - found[-1] <= LATE
    fire = (found[-1],) if fires else ()
    return Firings(fire, len(found) - len(fire), more)
