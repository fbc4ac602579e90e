"""Clocks for tests: one that stands still until it is moved, and one that runs faster."""

from __future__ import annotations

import asyncio
import heapq
import time
from itertools import count

EPOCH = 1_750_000_000_000
"""Where a frozen clock starts: ms since the Unix epoch."""


class FrozenClock:
    """A `semel.gateway.clock.Clock` whose time moves only by `advance`. Not for several threads' sleepers;
    `now` may be read from any thread, so it can be a store's clock, too."""

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
        """How many wait for the time to move."""
        return sum(not future.done() for _, _, future in self._sleepers)

    @property
    def next(self) -> int | None:
        """When the next of them wakes."""
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
        """Move the time, waking sleepers in the order of their times; each runs before the next is woken."""
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
        """Move the time to where the next sleeper wakes. False: nobody sleeps."""
        at = self.next
        if at is None:
            return False
        await self.advance((at - self._now) / 1000)
        return True


class HurriedClock:
    """Time that runs `factor` times as fast as the machine's, from `start` (ms, machine time) on.

    Several processes with the same `start` and `factor` agree on the time.
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
