"""The clock by which the gateway reads the time and sleeps, and the look-up of time zones by name.

Tests use the clocks of `semel.testing.clock`. Time zones are looked up here and not in `semel.timing`, because a
look-up reads files (the tz database), and `semel.timing` reads none.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Protocol
from zoneinfo import ZoneInfo, available_timezones

from semel.timing.walltime import BadSchedule

MAX_SLEEP_S = 30.0
"""The longest single sleep of `sleep_until`, in seconds. After it, the wall clock is read again, because it may have
been set or the machine suspended in the meantime."""


class Clock(Protocol):
    """A clock. Times are in milliseconds since the Unix epoch, durations in seconds."""

    def now(self) -> int: ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for at least this many seconds, even if the wall clock is set during the sleep."""

    async def sleep_until(self, at: int) -> None:
        """Sleep until the wall clock shows `at` (ms since the Unix epoch)."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def sleep_until(self, at: int) -> None:
        while (remaining := (at - self.now()) / 1000) > 0:  # noqa: ASYNC110 - setting the clock raises no event
            await asyncio.sleep(min(remaining, MAX_SLEEP_S))


class LedgerClock(SystemClock):
    """The clock of a ledger, which several machines may use. `read`: returns its time (`LedgerStore.now`)."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read

    def now(self) -> int:
        return self._read()


def find_zone(name: str) -> tzinfo:
    """Return the time zone with this name in the tz database. Raises BadSchedule if there is none."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # an unknown or malformed name, or a directory of the database
        raise _unknown_zone(name) from None


_known_names = cache(available_timezones)  # reading them takes 50 ms, and every misspelt name needs them


def _unknown_zone(name: str) -> BadSchedule:
    names = _known_names()
    if not names:
        return BadSchedule(f"{name!r} cannot be looked up: there is no tz database here; pip install tzdata")
    near = difflib.get_close_matches(name[:50], sorted(names), 1, 0.6)
    is_place = near and not re.search(r"\d", name)  # "UTC+2" is near to UTC, and two hours away from it
    hint = f'; did you mean "{near[0]}"?' if is_place else '; write it like "Europe/Berlin"'
    return BadSchedule(f"{name!r} is not a time zone{hint}")


def format_local(at: int, name: str) -> str:
    """Format a time as local time with its zone, like "2026-03-29 07:30 Europe/Berlin".

    `at`: in seconds since the epoch. `name`: the zone's name.
    """
    return f"{datetime.fromtimestamp(at, find_zone(name)):%Y-%m-%d %H:%M} {name}"
