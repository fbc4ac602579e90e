"""The clock that the gateway reads and sleeps by. Tests use the manual one in `semel.testing.clock`."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

MAX_SLEEP_S = 30.0
"""Longest single sleep, in seconds. `sleep_until` reads the wall clock again after it, because the clock may have been
set or the machine suspended meanwhile."""


class Clock(Protocol):
    """Wall time in milliseconds since the Unix epoch; durations in seconds."""

    def now(self) -> int: ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for at least this long, even if the wall clock is set meanwhile."""

    async def sleep_until(self, at: int) -> None:
        """Sleep until the wall clock reads `at` (ms since the epoch)."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def sleep_until(self, at: int) -> None:
        while (left := (at - self.now()) / 1000) > 0:  # noqa: ASYNC110 - setting the clock raises no event
            await asyncio.sleep(min(left, MAX_SLEEP_S))
