"""Time, as the gateway sees it. `semel.testing.clock` has one that stands still."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

NAP = 30.0
"""Seconds after which a long sleep looks at the wall clock again: it may have been set, or the machine
slept."""


class Clock(Protocol):
    """Wall time in milliseconds since the Unix epoch; durations in seconds."""

    def now(self) -> int: ...

    async def sleep(self, seconds: float) -> None:
        """At least that long, whatever happens to the wall clock."""

    async def sleep_until(self, at: int) -> None:
        """Until the wall clock says so."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def sleep_until(self, at: int) -> None:
        while (left := (at - self.now()) / 1000) > 0:  # noqa: ASYNC110 - no event tells of a clock being set
            await asyncio.sleep(min(left, NAP))
