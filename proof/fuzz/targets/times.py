"""Cron expressions, moments, intervals, durations, dates: what people and platforms write as times.

One that cannot be read is refused in words; of one that can, the next due instant lies after now, is never skipped,
and fits the expression.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import typer
from cronsim import CronSim

from proof.fuzz.source import Source
from semel.channels.email.parse_headers import parse_date
from semel.channels.http import retry_after
from semel.channels.matrix.transport import retry_after as matrix_wait
from semel.channels.xmpp.archive import parse_time
from semel.faces.cli.app import parse_time as parse_option_time
from semel.gateway.clock import find_zone, format_local
from semel.gateway.settings.tables import parse_seconds, parse_size
from semel.timing import schedule
from semel.timing.walltime import BadSchedule, first_active_instant, format_instant, read_hours, read_moment, wall_at

NOW = 1_790_000_000
ZONES = [
    "UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia",
    "Africa/Casablanca",
]  # fmt: skip
WORDS = [
    "*", " ", "*/5", "0", "7", "31", "59", "60", "-", ",", "/", "MON", "FRI-SUN", "jan", "1-5", "22", "29 2",
    "@daily", "@reboot", "30 7 * * MON-FRI", "2030-03-29 02:30", "2026-10-25T02:30:00", "T", ":", "Z", "+01:00",
    "+24:00", ".5", "9999-12-31 23:59", "0001-01-01 00:00", "2024-02-30", "10m", "90s", "366d", "w", "999999999",
    "22:00-06:00", "24:00", "Sun, 22 Nov 2026 10:00:00 +0000", "GMT", "-9999", "Mon, 1 Jan 0001",
    "2026-11-22T10:00:00.000Z", "٣", "\x00", "1e9", "2h", "5kB", "9" * 400, "0.1", "\ud800",
]  # fmt: skip


def one(data: bytes) -> None:
    source = Source(data)
    text = source.words(7, WORDS) if source.number(3) else source.take(60).decode("utf-8", "replace").strip(" ")
    name = source.pick(ZONES)
    after = NOW + source.number(60_000) * 521 - 15_000_000
    late = source.number(4) == 3
    for form in ("cron", "at", "every"):
        _schedule(form, text, name, after, late)
    _hours(text, name, after)
    _zone(text)
    for read in (parse_seconds, parse_size):
        try:
            value: Any = read(text)
        except ValueError:
            continue
        assert isinstance(value, int | float) and value >= 0
    _dates(text)


def _schedule(form: Any, text: str, name: str, after: int, late: bool) -> None:
    tz = find_zone(name)
    try:
        found = schedule.read_schedule(form, text, tz, anchor=NOW)
        due = found.next(after)
        later = found.next(due) if due is not None else None
    except BadSchedule as bad:
        assert str(bad)
        return
    assert due is None or due > after, "due in the past"
    assert later is None or (due is not None and later > due)
    if due is None:
        return
    format_instant(due)
    assert found.next(due - 1) == due, "the same instant is not found twice"
    middle = (after + due) // 2
    assert found.next(middle) == due, "a firing between the two was skipped"
    if found.cron is not None and form == "cron":
        wall = wall_at(tz, due)  # a time of day that the clock jumped over fires behind the gap
        jumped = wall - wall_at(tz, due - 1) != timedelta(seconds=1)
        assert _fits(found.cron, wall) or (jumped and not found.cron.is_rhythm), f"due at {format_instant(due)}"
    if due < 4_000_000_000:
        format_local(due, name)
    if due < 4_000_000_000 and late:
        firings = schedule.decide_firings(found, due, min(due + 400_000, 4_000_000_000), "all")
        assert due in firings.fire or firings.has_more, "a missed firing is forgotten"
        assert list(firings.fire) == sorted(set(firings.fire)) and len(firings.fire) <= schedule.MAX_MADE_UP_FIRINGS


def _fits(cron: schedule.Cron, wall: datetime) -> bool:
    """Whether the expression names what the clock shows then."""
    return next(CronSim(cron.expression, wall - timedelta(seconds=1))) == wall


def _hours(text: str, name: str, at: int) -> None:
    try:
        hours = read_hours(text)
    except BadSchedule:
        return
    found = first_active_instant(find_zone(name), at, hours)
    assert at <= found <= at + 2 * 86_400 + 7200
    assert first_active_instant(find_zone(name), found, hours) == found


def _zone(text: str) -> None:
    try:
        wall_at(find_zone(text), NOW)
        read_moment("2030-01-01 00:00", find_zone(text))
    except BadSchedule:
        pass


def _dates(text: str) -> None:
    for found in (parse_time(text), parse_date(text), _wait(text), _matrix(text)):
        assert found is None or math.isfinite(found)
    wait = _wait(text)
    assert wait is None or wait >= 0
    try:
        told = parse_option_time("--since", text)
    except typer.BadParameter:
        return
    assert told is None or isinstance(told, int)


def _wait(text: str) -> float | None:
    return retry_after({"retry-after": text}, float(NOW))


def _matrix(text: str) -> float | None:
    return matrix_wait({"retry-after": text}, {"retry_after_ms": len(text)})


SEEDS = [
    bytes([0]) + text.ljust(60) + bytes([len(text), 7])
    for text in (
        b"30 7 * * MON-FRI", b"*/5 * * * *", b"0 0 29 2 *", b"30 2 * * *", b"@weekly", b"2030-03-29 02:30", b"10m",
        b"2h", b"22:00-06:00", b"Europe/Berlin", b"Sun, 22 Nov 2026 10:00:00 +0000", b"2026-11-22T10:00:00Z",
        b"1-31/2 0-23/7 * 1,6 SUN",
        b"5kB", b"120", b"../etc/passwd", b"0001-01-01 00:00:00+14:00",
    )
] + [bytes([1, n, 3, n + 5, 1, 2, n, 9]) for n in range(0, 40, 3)]  # fmt: skip
