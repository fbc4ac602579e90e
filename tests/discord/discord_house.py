"""A double of Discord, a channel that speaks with it, and an inbox that keeps what it hears."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from semel.channels.discord.channel import DiscordChannel
from semel.channels.discord.settings import DiscordSettings
from semel.gateway.ports import Incoming, Op
from semel.testing.discord import DiscordDouble, DiscordUrls, serve
from semel.testing.inbox import KeptInbox

ANN = "7000000000000000001"
BOB = "7000000000000000002"


class DiscordHouse:
    """`room` is a channel of the server `guild`, `direct` Ann's conversation with the bot. `settings` are the
    channel's; a new channel, as after a restart, with `restart`."""

    def __init__(self, tmp_path: Path, double: DiscordDouble, urls: DiscordUrls, **settings: Any) -> None:
        self.double = double
        self.urls = urls
        self.settings = {"pace": 0.0, "timeout": 3.0, **settings}
        self.guild = double.guild("Garden")
        self.room = double.channel(self.guild, "roses")
        self.direct = double.direct(ANN)
        self.inbox = KeptInbox(tmp_path / "files")
        self.channel = self.fresh()
        self.task: asyncio.Task[None] | None = None
        self._tmp_path = tmp_path

    def fresh(self, **settings: Any) -> DiscordChannel:
        """A channel that remembers nothing."""
        given = {"token": self.double.token, "api": self.urls.api, **self.settings, **settings}
        return DiscordChannel("dc", DiscordSettings(**given))

    def op(self, text: str = "", *, to: str = "", kind: Any = "post", **more: Any) -> Op:
        """A part with a key of its own, by default for the room."""
        return Op(more.pop("key", None) or secrets.token_hex(12), kind, to or self.room, text, **more)

    def file(self, content: bytes, name: str) -> Path:
        path = self._tmp_path / f"stored-{name}"
        path.write_bytes(content)
        return path

    async def online(self) -> None:
        """Let the channel hear, and wait until it has heard what it missed."""
        self.task = asyncio.create_task(self.channel.run(self.inbox))
        waiting = asyncio.create_task(self.inbox.wait_online(self.inbox.onlines + 1))
        await asyncio.wait({self.task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self.task.done():
            self.task.result()

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.task
            self.task = None

    async def restart(self, **settings: Any) -> None:
        """End the channel, as a killed process does, and let a new one hear."""
        await self.stop()
        self.channel = self.fresh(**settings)
        await self.online()

    async def hear(self, events: int) -> list[Incoming]:
        """The first so many events, once they are there."""
        return await self.inbox.wait(events)

    async def heard_next(self, text: str) -> list[Incoming]:
        """Let Ann write a text of her own, and return what was heard up to it, without it."""
        self.double.write(self.direct, ANN, text)
        while not any(event.text == text for event in self.inbox.events):
            await self.inbox.wait(len(self.inbox.events) + 1)
        return [event for event in self.inbox.events if event.text != text]


async def until(holds: Callable[[], bool]) -> None:
    """Wait until this holds, for ten seconds at most."""
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to hold")


@asynccontextmanager
async def discord(tmp_path: Path, double: DiscordDouble | None = None, **settings: Any) -> AsyncIterator[DiscordHouse]:
    double = double or DiscordDouble()
    double.person(ANN, "Ann", nick="Annie")
    double.person(BOB, "Bob")
    async with serve(double) as urls:
        house = DiscordHouse(tmp_path, double, urls, **settings)
        try:
            yield house
        finally:
            await house.stop()
