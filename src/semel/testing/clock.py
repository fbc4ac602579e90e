"""Clocks for tests: one that a test moves by hand, and one that runs faster."""

from __future__ import annotations

import asyncio
import heapq
import time
from itertools import count

EPOCH = 1_750_000_000_000
"""The time at which a frozen clock starts, in ms since the Unix epoch."""


class FrozenClock:
    """A `semel.gateway.clock.Clock` whose time moves only by `advance`.

    All sleepers must be in one thread. `now` may be called from any thread, so a store may use this clock, too.
    """

    def __init__(self, now: int = EPOCH) -> None:
        self._now = now
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tie = count()

    def __repr__(self) -> str:
        return f"<FrozenClock {self._now} ms, {self.sleepers} asleep>"

    def now(self) -> int:
        return self._now

    @property
    def sleepers(self) -> int:
        """The number of tasks that sleep."""
        return sum(not future.done() for _, _, future in self._sleepers)

    @property
    def next(self) -> int | None:
        """The time at which the next sleeper wakes, in ms since the Unix epoch; None if no task sleeps."""
        return min((at for at, _, future in self._sleepers if not future.done()), default=None)

    async def sleep(self, seconds: float) -> None:
        await self.sleep_until(self._now + round(seconds * 1000))

    async def sleep_until(self, at: int) -> None:
        if at <= self._now:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (at, next(self._tie), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Move the time forward. Sleepers wake in the order of their times, and each runs before the next one wakes."""
        end = self._now + round(seconds * 1000)
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, future = heapq.heappop(self._sleepers)
            self._now = max(self._now, at)
            if not future.done():
                future.set_result(None)
                await _let_run()
        self._now = end
        await _let_run()

    async def advance_to_next(self) -> bool:
        """Move the time forward to the next sleeper's and wake it. Returns False if no task sleeps."""
        at = self.next
        if at is None:
            return False
        await self.advance((at - self._now) / 1000)
        return True


class HurriedClock:
    """A clock that agrees with the machine's at `start` and runs `factor` times as fast.

    `start`: ms since the Unix epoch, by default now. Clocks of several processes with the same `start` and `factor`
    show the same time.
    """

    def __init__(self, factor: float, start: int | None = None) -> None:
        self.factor = factor
        self.start = time.time_ns() // 1_000_000 if start is None else start

    def __repr__(self) -> str:
        return f"<HurriedClock {self.factor:g} times as fast, since {self.start}>"

    def now(self) -> int:
        elapsed = time.time_ns() / 1_000_000 - self.start
        return self.start + round(elapsed * self.factor)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.factor)

    async def sleep_until(self, at: int) -> None:
        await self.sleep(max(0.0, (at - self.now()) / 1000))


async def _let_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
