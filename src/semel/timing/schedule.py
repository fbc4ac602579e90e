"""Schedules: compute when a cron expression, an interval or a one-shot is due, and what to do about missed firings.

cronsim parses cron expressions by the rules of Debian's cron and yields the wall times that match (wall times and
instants: `walltime`). This module converts them into instants, because cronsim, like Debian's cron, follows the clock
for `*/10 2 * * *`: where 2 o'clock is skipped it doesn't fire, and where 2 o'clock occurs twice it fires in both passes
(docs/decisions/cron.md). Here, a cron time of day fires once even on the day when daylight saving time begins or ends:

- A wall time that does not exist fires at the first instant after the gap. Several such times fire once there.
- A wall time that occurs twice fires at its first occurrence only.
- A cron that fires in every hour of the day (`*/5 * * * *`, `30 * * * *`) is not a time of day but a *rhythm*: it fires
  in both passes of an hour that occurs twice, and a gap adds no firing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import Literal

from cronsim import CronSim, CronSimError

from semel.timing.durations import parse_duration
from semel.timing.walltime import BadSchedule, find_occurrence, first_at, read_moment, wall_at

ScheduleKind = Literal["cron", "at", "every"]

DAY_S = 86_400
MAX_EVERY_S = 366 * DAY_S

MAX_CRON_CHARACTERS = 1000
CRON_FIELDS = (
    ("minute", "0 to 59", 59),
    ("hour", "0 to 23", 23),
    ("day of month", "1 to 31", 31),
    ("month", "1 to 12, or JAN to DEC", 12),
    ("day of week", "0 to 7, or SUN to SAT", 7),
)
"""The fields of a cron expression in order: (name, what to write there, largest step)."""

_VALUE = r"(?:\d{1,3}|[A-Z]{3})"
_TERM = rf"(?:\*|{_VALUE}(?:-{_VALUE})?)(?:/\d{{1,2}})?"
_CRON_FIELD = re.compile(rf"{_TERM}(?:,{_TERM})*", re.ASCII)  # so without cronsim's own additions, like "L" and "MON#2"

CRON_SHORTCUTS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


# ---------------------------------------------------------------- cron


@dataclass(frozen=True)
class Cron:
    """A valid cron expression of five fields. `is_rhythm`: whether it fires in every hour of the day."""

    expression: str
    is_rhythm: bool

    def walls(self, after: datetime) -> Iterator[datetime]:
        """Yield the matching wall times later than `after`, in order, until none follows within 50 years."""
        try:
            yield from CronSim(self.expression, after)
        except OverflowError:  # the end of the calendar, the year 9999
            return


def read_cron(text: str) -> Cron:
    """Parse a cron expression or a shortcut like "@daily". Raises BadSchedule if it is malformed or never fires."""
    fields = CRON_SHORTCUTS.get(text.strip().lower(), text).upper().split()
    if len(fields) != len(CRON_FIELDS) or len(text) > MAX_CRON_CHARACTERS:
        raise BadSchedule(
            f"{text!r} is not a cron expression: write 5 fields, minute hour day-of-month month day-of-week, like "
            f'"30 7 * * MON-FRI", or one of {", ".join(CRON_SHORTCUTS)}'
        )
    fields[4] = re.sub(r"-(SUN|0)\b", "-7", fields[4])  # SAT-SUN
    fields = [re.sub(r"\b(\w+)-\1/\d+", r"\1", field) for field in fields]  # cronsim would read 5-5/2 as 5/2
    for position, field in enumerate(fields):
        _check_field(position, field)
    expression = " ".join(fields)
    simulation = _simulate(expression)
    if simulation is None:
        raise BadSchedule(f"{text!r} never fires: none of its months has such a day")
    return Cron(expression, is_rhythm=len(simulation.hours) == 24)


def _check_field(position: int, field: str) -> None:
    name, values, largest_step = CRON_FIELDS[position]
    steps = re.findall(r"/(\d+)", field)
    alone = " ".join(field if n == position else "*" for n in range(len(CRON_FIELDS)))
    if not _CRON_FIELD.fullmatch(field) or max(map(int, steps), default=0) > largest_step or not _simulate(alone):
        raise BadSchedule(
            f"{field!r} is no {name} of a cron expression: write {values}, a range from the lower to the higher, and "
            f"a step from 1 to {largest_step}"
        )


def _simulate(expression: str) -> CronSim | None:
    try:
        return CronSim(expression, datetime.min)  # noqa: DTZ901 - a wall time has no zone
    except CronSimError:
        return None


def next_cron(cron: Cron, zone: tzinfo, after: int) -> int | None:
    """Return the first instant later than `after` at which the cron fires; None if there is none within 50 years."""
    start = wall_at(zone, after)
    if not cron.is_rhythm:
        instants = (first_at(zone, wall) for wall in cron.walls(start))
        return next((instant for instant in instants if instant > after), None)
    # A rhythm fires at both occurrences of a wall time. So find the next first occurrence (fold 0) and the next last
    # one (fold 1), and take the earlier.
    start = min(start, wall_at(zone, after + DAY_S) - timedelta(days=1))
    firings: list[int] = []
    for fold in (0, 1):
        occurrences = (find_occurrence(zone, wall, fold) for wall in cron.walls(start))
        firings += islice((instant for instant in occurrences if instant is not None and instant > after), 1)
    return min(firings, default=None)


def read_every(text: str) -> int:
    """Parse an interval ("90s", "10m", "2h", "1d", "1w", or a number of seconds) into seconds. Raises BadSchedule."""
    seconds = parse_duration(text)
    if seconds is None or not seconds.is_integer() or not 1 <= seconds <= MAX_EVERY_S:
        raise BadSchedule(f'{text!r} is not an interval: write it like "90s", "10m", "2h" or "1d", at most 366 days')
    return int(seconds)


# ---------------------------------------------------------------- schedules


@dataclass(frozen=True)
class ParsedSchedule:
    """A parsed schedule. `form` decides which of `cron`, `moment` (an instant) and `every` (seconds) is set.

    `anchor`: the instant at which the schedule was created; an interval counts from it.
    """

    form: ScheduleKind
    zone: tzinfo
    cron: Cron | None = None
    moment: int = 0
    every: int = 0
    anchor: int = 0

    def next(self, after: int) -> int | None:
        """Return the first instant later than `after` at which the schedule is due; None if there is none."""
        if self.form == "at":
            return self.moment if self.moment > after else None
        if self.form == "every":
            return self.anchor + max(1, (after - self.anchor) // self.every + 1) * self.every
        assert self.cron is not None
        return next_cron(self.cron, self.zone, after)


def read_schedule(form: ScheduleKind, spec: str, zone: tzinfo, anchor: int = 0) -> ParsedSchedule:
    """Parse a schedule. Raises BadSchedule.

    `spec`: the cron expression, date and time, or interval, as a person wrote it. `zone`: the time zone of its wall
    times. `anchor`: the instant at which the schedule was created.
    """
    if form == "cron":
        return ParsedSchedule(form, zone, cron=read_cron(spec), anchor=anchor)
    if form == "at":
        return ParsedSchedule(form, zone, moment=read_moment(spec, zone), anchor=anchor)
    return ParsedSchedule(form, zone, every=read_every(spec), anchor=anchor)


def newest_instants(schedule: ParsedSchedule, since: int, until: int, max_count: int) -> tuple[list[int], bool]:
    """Return (the newest due instants from `since` to `until` inclusive, at most `max_count`; whether there are more).

    The cost depends on `max_count`, not on the length of the period: a gateway may have been down for years.
    """
    span = max_count * 60
    while True:
        start = max(since, until - span)
        instants = list(_list_between(schedule, start, until, 4 * max_count))
        if start == since or len(instants) > max_count:
            break
        span *= 4
    while len(instants) > 4 * max_count:  # the schedule fires more than once a minute: only look nearer to `until`
        start = (start + until) // 2
        instants = list(_list_between(schedule, start, until, 4 * max_count))
    return instants[-max_count:], len(instants) > max_count or start > since


def _list_between(schedule: ParsedSchedule, since: int, until: int, max_count: int) -> Iterator[int]:
    instant = schedule.next(since - 1)
    for _ in range(max_count + 1):
        if instant is None or instant > until:
            return
        yield instant
        instant = schedule.next(instant)


# ---------------------------------------------------------------- missed firings

MissedFiringsPolicy = Literal["skip", "once", "all"]
LATE_AFTER_S = 60
"""A firing that is late by more seconds than this was missed, because the gateway was down or the machine slept."""
MAX_MADE_UP_FIRINGS = 100
"""The maximum number of missed firings that the policy `all` makes up for: the newest ones."""


@dataclass(frozen=True)
class Firings:
    """Which of the due firings run now.

    `fire`: the instants of those that run. `missed`: how many others were counted; they do not run. `has_more`: whether
    still more were due, which were not counted. `missed_span`: when the first and the last missed firing were due, as
    wall times of the schedule's zone; None if none was missed. `doubtful`: whether the missed firings may have run
    already, before the ledger was restored from a backup.
    """

    fire: tuple[int, ...]
    missed: int = 0
    has_more: bool = False
    missed_span: tuple[datetime, datetime] | None = None
    doubtful: bool = False


def doubtful_firings(schedule: ParsedSchedule, due: int, until: int) -> Firings:
    """Return the decision to run none of the firings due from `due` to `until`.

    It is made after the ledger was restored from a backup, because the firings may have run already (Law 14).
    """
    instants, has_more = newest_instants(schedule, due, until, MAX_MADE_UP_FIRINGS)
    return Firings((), len(instants), has_more, _find_span(schedule, due, instants), doubtful=True)


def decide_firings(schedule: ParsedSchedule, due: int, now: int, downtime: MissedFiringsPolicy) -> Firings:
    """Choose which of the firings due from `due` to `now` to run.

    The policy `downtime`: "all" runs them all, "once" the newest, "skip" the newest unless it was missed.
    """
    instants, has_more = newest_instants(schedule, due, now, MAX_MADE_UP_FIRINGS)
    if not instants:
        return Firings(())
    if downtime == "all":
        return Firings(tuple(instants), 0, has_more)
    fires_newest = downtime == "once" or now - instants[-1] <= LATE_AFTER_S
    chosen, missed = ((instants[-1],), instants[:-1]) if fires_newest else ((), instants)
    return Firings(chosen, len(missed), has_more, _find_span(schedule, due, missed))


def _find_span(schedule: ParsedSchedule, due: int, missed: Sequence[int]) -> tuple[datetime, datetime] | None:
    return (wall_at(schedule.zone, due), wall_at(schedule.zone, missed[-1])) if missed else None
