"""When a cron is due: in plain zones, and where clocks are set."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.gateway.clock import find_zone
from semel.timing.schedule import Cron, newest_instants, next_cron, read_cron, read_schedule
from semel.timing.walltime import (
    BadSchedule,
    find_occurrence,
    find_time_of_day,
    first_active_instant,
    first_at,
    format_instant,
    read_hours,
    read_moment,
    wall_at,
)

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # set its clocks at midnight, until 2019
    "America/Havana",  # at midnight and at one
    "Australia/Lord_Howe",  # by half an hour
    "Africa/Casablanca",  # back for a month, each year at another time
    "Asia/Kathmandu",  # 5:45 ahead
    "Pacific/Apia",  # went without the 30th of December 2011
    "Antarctica/Troll",  # by two hours
    "Pacific/Kwajalein",  # went without the 21st of August 1993
    "America/St_Johns",  # at a minute past midnight, until 2011
]


def fires(spec: str, tz: str, start: str, count: int) -> list[str]:
    """The first firings from a local time on, as the clocks there show them."""
    at, found = read_moment(start, find_zone(tz)) - 1, []
    cron = read_cron(spec)
    for _ in range(count):
        following = next_cron(cron, find_zone(tz), at)
        assert following is not None
        at = following
        found.append(f"{datetime.fromtimestamp(at, ZoneInfo(tz)):%m-%d %H:%M %z}")
    return found


@pytest.mark.parametrize(
    ("spec", "tz", "start", "due"),
    [
        # a time that does not exist: the next instant that does
        ("30 2 * * *", "Europe/Berlin", "2026-03-28", ["03-28 02:30 +0100", "03-29 03:00 +0200", "03-30 02:30 +0200"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03", ["10-03 02:15 +1030", "10-04 02:30 +1100"]),
        ("30 0 * * *", "America/Sao_Paulo", "2018-11-03", ["11-03 00:30 -0300", "11-04 01:00 -0200"]),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29", ["12-29 12:00 -1000", "12-31 00:00 +1400", "12-31 12:00 +1400"]),
        ("30 1 * * *", "Antarctica/Troll", "2026-03-29", ["03-29 03:00 +0200", "03-30 01:30 +0200"]),
        ("0 */2 * * *", "Europe/Berlin", "2026-03-29", ["03-29 00:00 +0100", "03-29 03:00 +0200", "03-29 04:00 +0200"]),
        # several of them: once
        ("*/10 2 * * *", "Europe/Berlin", "2026-03-29", ["03-29 03:00 +0200", "03-30 02:00 +0200"]),
        ("0 2,3 * * *", "Europe/Berlin", "2026-03-29", ["03-29 03:00 +0200", "03-30 02:00 +0200"]),
        # a time that occurs twice: the first
        ("30 2 * * *", "Europe/Berlin", "2026-10-25", ["10-25 02:30 +0200", "10-26 02:30 +0100"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25",
         ["10-25 02:00 +0200", "10-25 02:30 +0200", "10-26 02:00 +0100"]),
        ("*/30 0-3 * * SUN", "Australia/Lord_Howe", "2026-04-05 01:00",
         ["04-05 01:00 +1100", "04-05 01:30 +1100", "04-05 02:00 +1030", "04-05 02:30 +1030"]),
        ("30 23 * * *", "America/Sao_Paulo", "2018-02-17", ["02-17 23:30 -0200", "02-18 23:30 -0300"]),
        ("1 0 * * *", "America/Havana", "2026-11-01", ["11-01 00:01 -0400", "11-02 00:01 -0500"]),
        # every hour is a rhythm: it follows the clock as it goes
        ("30 * * * *", "Europe/Berlin", "2026-03-29 01:00", ["03-29 01:30 +0100", "03-29 03:30 +0200"]),
        ("30 * * * *", "Europe/Berlin", "2026-10-25 01:00",
         ["10-25 01:30 +0200", "10-25 02:30 +0200", "10-25 02:30 +0100", "10-25 03:30 +0100"]),
        ("5 0-23 * * *", "Europe/Berlin", "2026-03-29 01:00", ["03-29 01:05 +0100", "03-29 03:05 +0200"]),
        ("45 * * * *", "Australia/Lord_Howe", "2026-04-05 01:00",
         ["04-05 01:45 +1100", "04-05 01:45 +1030", "04-05 02:45 +1030"]),
        ("30 * 18 2 *", "America/Sao_Paulo", "2018-02-17 22:00", ["02-18 00:30 -0300", "02-18 01:30 -0300"]),
        ("30 * 17 2 *", "America/Sao_Paulo", "2018-02-17 23:00", ["02-17 23:30 -0200", "02-17 23:30 -0300"]),
        # days
        ("0 9 13 * FRI", "UTC", "2026-01-01", ["01-02 09:00 +0000", "01-09 09:00 +0000", "01-13 09:00 +0000"]),
        ("0 9 */2 * FRI", "UTC", "2026-01-01", ["01-09 09:00 +0000", "01-23 09:00 +0000"]),
        ("0 0 29 2 *", "UTC", "2097-01-01", ["02-29 00:00 +0000"]),
        ("0 0 * * 7", "Asia/Kathmandu", "2026-01-01", ["01-04 00:00 +0545", "01-11 00:00 +0545"]),
        ("0 0 * * sat-sun", "UTC", "2026-01-01", ["01-03 00:00 +0000", "01-04 00:00 +0000", "01-10 00:00 +0000"]),
        ("0 0 1 jan,Jul *", "UTC", "2026-01-02", ["07-01 00:00 +0000", "01-01 00:00 +0000"]),
        ("5/20 8-10/2 * * *", "UTC", "2026-01-01", ["01-01 08:05 +0000", "01-01 08:25 +0000", "01-01 08:45 +0000",
                                                    "01-01 10:05 +0000"]),
        ("0 0 29 2 */7", "UTC", "2005-01-01", ["02-29 00:00 +0000"]),  # a Sunday: in 2032
        ("5-5/2 8 * * *", "UTC", "2026-01-01", ["01-01 08:05 +0000", "01-02 08:05 +0000"]),
        ("@weekly", "UTC", "2026-01-01", ["01-04 00:00 +0000"]),
        ("@Hourly", "UTC", "2026-01-01 00:01", ["01-01 01:00 +0000"]),
    ],
)  # fmt: skip
def test_a_cron_is_due_when_the_clocks_there_say_so(spec: str, tz: str, start: str, due: list[str]) -> None:
    start = start if " " in start else f"{start} 00:00"
    assert fires(spec, tz, start, len(due)) == due


@pytest.mark.parametrize(
    "spec",
    [
        "", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 8",
        "5-1 * * * *", "*/0 * * * *", "*/60 * * * *", "-1 * * * *", "1- * * * *", "1,,2 * * * *", "a * * * *",
        "@reboot", "* * * FEBRUARY *", "0 0 30 2 *", "0 0 31 2,4,6 *", "1.5 * * * *", "٣ * * * *", "* * * * MON#2",
        "99999999999999 * * * *", "0 0 L * *", "0 0 * * 5L", f"{'1,' * 500}1 * * * *",
    ],
)  # fmt: skip
def test_what_is_no_cron_or_never_fires_is_refused_with_a_sentence(spec: str) -> None:
    with pytest.raises(BadSchedule) as refused:
        read_cron(spec)
    assert len(str(refused.value)) > 20


FIELD = st.sampled_from(["*", "*/7", "0", "30", "5,35", "10-20/5"])
HOURS = st.sampled_from(["*", "0", "2", "0-3", "1,2,23", "*/2", "22-23"])
DAYS = st.sampled_from(["*", "*", "1", "30,31", "*/10"])
WEEK = st.sampled_from(["*", "*", "SUN", "MON-FRI"])
SPECS = st.tuples(FIELD, HOURS, DAYS, st.sampled_from(["*", "*", "3,10", "2"]), WEEK).map(" ".join)


def brute(cron: Cron, tz: str, since: int, until: int) -> list[int]:
    """The same by looking at every minute: what the clock shows, and what it skipped."""
    info, found, seen = ZoneInfo(tz), set(), set()
    wall = datetime.fromtimestamp(since, info).replace(tzinfo=None)
    at = since
    while at <= until:
        now = datetime.fromtimestamp(at, info).replace(tzinfo=None)
        skipped = []
        while wall < now - timedelta(minutes=1):  # the clock was set forward
            wall += timedelta(minutes=1)
            skipped.append(wall)
        for one in [now] if cron.is_rhythm else [*skipped, now]:
            if _matches(cron.expression, one) and (cron.is_rhythm or one not in seen):
                found.add(at)
            seen.add(one)
        wall = max(wall, now)
        at += 60
    return sorted(found)


def _matches(expression: str, wall: datetime) -> bool:
    """Whether a wall time matches: a second reading of `SPECS`, apart from the library's."""
    fields = expression.split()
    minutes, hours, days, months, weekdays = (
        _values(field, lowest) for field, lowest in zip(fields, (0, 0, 1, 1, 0), strict=True)
    )
    is_day, is_weekday = wall.day in days, wall.isoweekday() % 7 in weekdays
    both = fields[2].startswith("*") or fields[4].startswith("*")
    on_day = (is_day and is_weekday) if both else (is_day or is_weekday)
    return on_day and wall.month in months and wall.hour in hours and wall.minute in minutes


def _values(field: str, lowest: int) -> set[int]:
    values: set[int] = set()
    for term in field.replace("SUN", "0").replace("MON-FRI", "1-5").replace("*", f"{lowest}-59").split(","):
        span, _, step = term.partition("/")
        low, _, high = span.partition("-")
        values.update(range(int(low), int(high or low) + 1, int(step or 1)))
    return values


CHANGES = [  # some hours before a clock is set
    ("Europe/Berlin", "2026-03-28T22:00Z"), ("Europe/Berlin", "2026-10-24T22:00Z"),
    ("America/Sao_Paulo", "2018-02-17T22:00Z"), ("America/Sao_Paulo", "2018-11-03T22:00Z"),
    ("America/Havana", "2026-03-08T02:00Z"), ("America/Havana", "2026-11-01T02:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T12:00Z"), ("Australia/Lord_Howe", "2026-10-03T12:00Z"),
    ("Antarctica/Troll", "2026-03-28T22:00Z"), ("Antarctica/Troll", "2026-10-24T22:00Z"),
    ("Pacific/Apia", "2011-12-30T05:00Z"), ("Africa/Casablanca", "2026-02-14T22:00Z"),
    ("America/St_Johns", "2010-11-06T23:00Z"), ("Asia/Kathmandu", "2026-01-31T12:00Z"), ("UTC", "2028-02-28T20:00Z"),
]  # fmt: skip


@pytest.mark.long
@given(SPECS, st.sampled_from(CHANGES), st.integers(0, 240))
@settings(max_examples=120, deadline=None)
def test_nothing_is_skipped_or_doubled_where_a_clock_is_set(spec: str, change: tuple[str, str], later: int) -> None:
    tz, start = change
    try:
        cron = read_cron(spec)
    except BadSchedule:
        return
    since = read_moment(start, find_zone("UTC")) + later * 60
    until = since + 8 * 3600
    # the looking by minutes starts a day earlier: it has to have seen the first of two equal times
    wanted = [at for at in brute(cron, tz, since - 26 * 3600, until) if at > since]
    found, at = [], next_cron(cron, find_zone(tz), since)
    while at is not None and at <= until:
        found.append(at)
        at = next_cron(cron, find_zone(tz), at)
    assert found == wanted


@given(SPECS, st.sampled_from(ZONES), st.integers(0, 4_000_000_000), st.integers(0, 3_000_000))
@settings(max_examples=300, deadline=None)
def test_firings_strictly_increase_and_none_lies_between(spec: str, tz: str, after: int, more: int) -> None:
    try:
        cron = read_cron(spec)
    except BadSchedule:
        return
    first = next_cron(cron, find_zone(tz), after)
    if first is None:
        return
    second = next_cron(cron, find_zone(tz), first)
    assert after < first
    assert second is None or first < second
    between = min(after + more, first - 1)
    assert next_cron(cron, find_zone(tz), between) == first


@given(st.sampled_from(ZONES), st.integers(500_000_000, 2_500_000_000))
@settings(deadline=None)
def test_an_instant_is_one_of_the_occurrences_of_its_wall_time(tz: str, at: int) -> None:
    wall = wall_at(find_zone(tz), at)
    first, last = (find_occurrence(find_zone(tz), wall, fold) for fold in (0, 1))
    assert at in (first, last)
    assert first_at(find_zone(tz), wall) == first


@pytest.mark.parametrize(
    ("text", "tz", "at"),
    [
        ("2026-03-29T01:30:00Z", "Europe/Berlin", "2026-03-29T01:30:00Z"),
        ("2026-03-29 02:30", "Europe/Berlin", "2026-03-29T01:00:00Z"),  # it does not exist
        ("2026-10-25 02:30", "Europe/Berlin", "2026-10-25T00:30:00Z"),  # the first of two
        ("2026-10-25T02:30:15.5+01:00", "UTC", "2026-10-25T01:30:15Z"),
        ("2026-10-25t02:30:15-0330", "UTC", "2026-10-25T06:00:15Z"),
        ("2024-02-29 00:00", "UTC", "2024-02-29T00:00:00Z"),
    ],
)
def test_a_moment_is_read_in_its_zone(text: str, tz: str, at: str) -> None:
    assert format_instant(read_moment(text, find_zone(tz))) == at


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "2026-02-29 00:00", "2026-13-01 00:00", "2026-01-01", "2026-01-01 24:00", "0000-01-01 00:00"],
)
def test_a_moment_that_no_calendar_has_is_refused(text: str) -> None:
    with pytest.raises(BadSchedule):
        read_moment(text, find_zone("UTC"))


def test_an_interval_counts_from_its_beginning() -> None:
    every = read_schedule("every", "10m", find_zone("UTC"), anchor=1000)
    assert [every.next(at) for at in (0, 1000, 1599, 1600, 1601)] == [1600, 1600, 1600, 2200, 2200]
    assert read_schedule("every", "10", find_zone("UTC")).every == 10
    for text in ("1.5h", "1h30m", "1h 30m", "90m"):
        assert read_schedule("every", text, find_zone("UTC")).every == 5400
    assert read_schedule("every", "1w2d3h4m5s", find_zone("UTC")).every == 788_645
    for wrong in ("", "0s", "-5m", "10 minutes", "0.5s", "400d", "30m1h", "1h1h", "1h30", "1.5h30m"):
        with pytest.raises(BadSchedule):
            read_schedule("every", wrong, find_zone("UTC"))


def test_a_moment_is_due_once() -> None:
    once = read_schedule("at", "2026-01-01 00:00", find_zone("UTC"))
    assert once.next(0) == once.moment
    assert once.next(once.moment - 1) == once.moment
    assert once.next(once.moment) is None


@pytest.mark.parametrize(
    ("form", "spec"), [("cron", "* * * * *"), ("cron", "0 0 1 1 *"), ("every", "1s"), ("every", "7d")]
)
def test_the_newest_missed_firings_are_found_however_long_ago_the_first_was(form: str, spec: str) -> None:
    series = read_schedule(form, spec, find_zone("Europe/Berlin"))  # type: ignore[arg-type]
    until = 1_790_000_000
    found, more = newest_instants(series, 0, until, 20)
    assert len(found) == 20
    assert more
    assert found == sorted(set(found))
    assert all(series.next(a) == b for a, b in pairwise(found))
    following = series.next(found[-1])
    assert following is not None
    assert found[-1] <= until < following


def test_a_zone_that_nobody_knows_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadSchedule, match="Europe/Berlin"):
        find_zone("Europe/Berln")
    for odd in ("", "../UTC", "Europe", "/etc/localtime", "\0", "x" * 5000):
        with pytest.raises(BadSchedule):
            find_zone(odd)


@pytest.mark.parametrize(
    ("hours", "at", "then"),
    [
        ("08:00-22:00", "2026-01-05 07:59", "2026-01-05 08:00"),
        ("08:00-22:00", "2026-01-05 08:00", "2026-01-05 08:00"),
        ("08:00-22:00", "2026-01-05 21:59", "2026-01-05 21:59"),
        ("08:00-22:00", "2026-01-05 22:00", "2026-01-06 08:00"),
        ("22:00-06:00", "2026-01-05 05:59", "2026-01-05 05:59"),
        ("22:00-06:00", "2026-01-05 06:00", "2026-01-05 22:00"),
        ("02:30-06:00", "2026-03-29 00:00", "2026-03-29 03:00"),
        ("00:00-24:00", "2026-03-29 00:00", "2026-03-29 00:00"),
    ],
)
def test_active_hours_follow_the_clock_of_their_zone(hours: str, at: str, then: str) -> None:
    berlin = find_zone("Europe/Berlin")
    assert first_active_instant(berlin, read_moment(at, berlin), read_hours(hours)) == read_moment(then, berlin)


@pytest.mark.parametrize(
    ("text", "zone", "after", "found"),
    [
        ("18:00", "UTC", "2026-11-26T12:00:00Z", "2026-11-26T18:00:00Z"),
        ("18:00", "UTC", "2026-11-26T18:00:00Z", "2026-11-27T18:00:00Z"),
        ("7:05", "Europe/Berlin", "2026-11-26T06:04:59Z", "2026-11-26T06:05:00Z"),
        ("02:30", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),  # in a gap: its end
        ("02:30", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),  # twice: the first
        ("02:30", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
    ],
)
def test_a_time_of_day_is_the_next_one(text: str, zone: str, after: str, found: str) -> None:
    instant = find_time_of_day(text, ZoneInfo(zone), read_moment(after, ZoneInfo("UTC")))
    assert instant is not None
    assert format_instant(instant) == found


@pytest.mark.parametrize("text", ["24:00", "18:60", "18", "18:00:00", "2026-11-26 18:00", "18:00Z", ""])
def test_what_is_no_time_of_day_is_not_read_as_one(text: str) -> None:
    assert find_time_of_day(text, ZoneInfo("UTC"), 0) is None
