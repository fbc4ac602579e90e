"""A double of Teams, a channel that speaks with it, and an inbox that keeps what it hears."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from semel.channels.teams.channel import TeamsChannel
from semel.channels.teams.settings import TeamsSettings
from semel.gateway.ports import Incoming, Op
from semel.testing.inbox import KeptInbox
from semel.testing.teams import TeamsDouble, serve

ANN, BOB = "7faf8ab2-3d56-4244-b585-20c8a42ed2b8", "976e4d1e-2108-43ee-a092-46a9507c5606"
CHAT = f"@{ANN}"


class TeamsHouse:
    """`settings` are the channel's. `now` is the time of the double and the channel, in seconds since the epoch."""

    def __init__(self, tmp_path: Path, double: TeamsDouble, settings: dict[str, str], **more: Any) -> None:
        self.double = double
        self.now = time.time()
        self.settings = {**settings, "pace": 0.0, "timeout": 5.0, **more}
        self.inbox = KeptInbox(tmp_path / "files")
        double.person("Ann", id=ANN)
        double.person("Bob", id=BOB)
        self.group = double.group("plans", ANN, BOB)
        self.garden = double.channel("garden", ANN, BOB)
        self.channel = self.fresh()
        self.task: asyncio.Task[None] | None = None
        self._n = 0

    def fresh(self, **settings: Any) -> TeamsChannel:
        """A channel that remembers nothing but its cursor, as after a restart."""
        return TeamsChannel("teams", TeamsSettings(**{**self.settings, **settings}), clock=lambda: self.now)

    def op(self, text: str = "", *, to: str = CHAT, kind: Any = "post", **more: Any) -> Op:
        """A part with a key of its own."""
        self._n += 1
        return Op(more.pop("key", f"key-{self._n}"), kind, to, text, **more)

    def calls(self, *names: str) -> list[str]:
        """The names of the calls so far: all, or those of these names."""
        return [row["call"] for row in self.double.requests if not names or row["call"] in names]

    async def online(self) -> None:
        self.task = asyncio.create_task(self.channel.run(self.inbox))
        await self.inbox.wait_online(self.inbox.onlines + 1)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.task
            self.task = None

    async def take(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        """Post one request to the channel. Return its answer."""
        return await self.channel.receive(self.inbox, headers, body)

    async def hear(self) -> list[Incoming]:
        """Let Teams post what waits. Return the new events."""
        before = len(self.inbox.events)
        for headers, body in self.double.take_requests():
            status, answer = await self.take(headers, body)
            assert status == 200, answer
        return list(self.inbox.events[before:])


async def until(holds: Callable[[], bool | Awaitable[bool]], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            outcome = holds()
            if outcome if isinstance(outcome, bool) else await outcome:
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def teams(tmp_path: Path, double: TeamsDouble | None = None, **settings: Any) -> AsyncIterator[TeamsHouse]:
    double = double or TeamsDouble()
    async with serve(double) as known:
        house = TeamsHouse(tmp_path, double, known, **settings)
        double.now = lambda: house.now
        try:
            yield house
        finally:
            await house.stop()


__all__ = ["ANN", "BOB", "CHAT", "TeamsDouble", "TeamsHouse", "teams", "until"]
