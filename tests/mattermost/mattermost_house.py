"""A double of Mattermost, a channel that speaks with it, and an inbox that keeps what it hears."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from semel.channels.mattermost.channel import MattermostChannel
from semel.channels.mattermost.settings import MattermostSettings
from semel.gateway.ports import Incoming, Op
from semel.testing.inbox import KeptInbox
from semel.testing.mattermost import MattermostDouble, MattermostUrls, serve


class MattermostHouse:
    """`ann`, `bob`: people. `direct`: Ann's direct message with the bot. `room`: a channel with all three."""

    def __init__(self, tmp_path: Path, double: MattermostDouble, urls: MattermostUrls, **settings: Any) -> None:
        self.tmp_path = tmp_path
        self.double = double
        self.urls = urls
        self.more = {"pace": 0.0, "timeout": 5.0, "settle": 0.05, **settings}
        self.inbox = KeptInbox(tmp_path / "files")
        self.ann, self.bob = double.person("ann"), double.person("bob")
        self.direct = double.direct(self.ann)
        self.room = double.channel("garden", self.ann, self.bob)
        self.channel = self.fresh()
        self.task: asyncio.Task[None] | None = None
        self._n = 0

    def fresh(self, **settings: Any) -> MattermostChannel:
        """A channel that remembers nothing, as after a restart."""
        fields = {
            "url": self.urls.url, "websocket": self.urls.websocket, "token": self.double.token, **self.more, **settings,
        }  # fmt: skip
        return MattermostChannel("mattermost", MattermostSettings(**fields))

    def op(self, text: str = "", *, to: str | None = None, kind: Any = "post", **more: Any) -> Op:
        """A part with a key of its own."""
        self._n += 1
        return Op(more.pop("key", f"key-{self._n}"), kind, to or self.direct, text, **more)

    async def online(self) -> None:
        self.task = asyncio.create_task(self.channel.run(self.inbox))
        await self.inbox.wait_online(self.inbox.onlines + 1)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.task
            self.task = None

    async def wait_for_failure(self) -> None:
        """Wait until the channel's `run` fails. Raises what it raised."""
        assert self.task is not None
        task, self.task = self.task, None
        await asyncio.wait_for(task, 20)

    async def again(self) -> None:
        """Start anew: another channel with the same inbox."""
        await self.stop()
        self.channel = self.fresh()
        await self.online()

    def fresh_limits(self) -> None:
        """Forget the rate limit that the server has told."""
        self.channel._api._free_at = 0.0

    async def hear(self, events: int) -> list[Incoming]:
        """The first so many events, once they are there."""
        return list(await self.inbox.wait(events))


@asynccontextmanager
async def mattermost(
    tmp_path: Path, double: MattermostDouble | None = None, **settings: Any
) -> AsyncIterator[MattermostHouse]:
    double = double or MattermostDouble()
    async with serve(double) as urls:
        house = MattermostHouse(tmp_path, double, urls, **settings)
        try:
            yield house
        finally:
            await house.stop()
