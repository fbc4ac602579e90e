"""A double of Slack, a channel that speaks with it, and an inbox that keeps what it hears."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from semel.channels.slack.backfill import OVERLAP_S
from semel.channels.slack.channel import SlackChannel
from semel.channels.slack.settings import SlackSettings
from semel.gateway.ports import Op
from semel.testing.inbox import KeptInbox
from semel.testing.slack import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, SlackDouble, serve

ANN, BOB = "U7", "U8"
ROOM = "C100"
BOT = SlackDouble.bot_user


class SlackHouse:
    """`settings` are the channel's. `direct`: Ann's direct message with the bot."""

    def __init__(self, tmp_path: Path, double: SlackDouble, url: str, **settings: Any) -> None:
        self.tmp_path = tmp_path
        self.double = double
        self.url = url
        self.more = {"pace": 0.0, "timeout": 5.0, "settle": 0.1, **settings}
        self.inbox = KeptInbox(tmp_path / "files")
        self.direct = double.direct(double.person(ANN, "Ann"))
        double.person(BOB, "Bob")
        double.channel(ROOM, "general", ANN, BOB)
        self.channel = self.fresh()
        self.task: asyncio.Task[None] | None = None
        self._n = 0

    def fresh(self, **settings: Any) -> SlackChannel:
        """A channel that remembers nothing, as after a restart."""
        fields = {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "api": self.url, **self.more, **settings}
        if fields.get("signing_secret"):
            fields["app_token"] = None
        return SlackChannel("slack", SlackSettings(**fields))

    def op(self, text: str = "", *, to: str | None = None, kind: Any = "post", **more: Any) -> Op:
        """A part with a key of its own."""
        self._n += 1
        return Op(more.pop("key", f"key-{self._n}"), kind, to or self.direct, text, **more)

    def file(self, content: bytes, name: str) -> Path:
        path = self.tmp_path / f"stored-{name}"
        path.write_bytes(content)
        return path

    def asked(self, method: str) -> list[dict[str, Any]]:
        """The parameters of each call of a method."""
        return [row["params"] for row in self.double.requests if row["method"] == method]

    async def online(self) -> None:
        self.task = asyncio.create_task(self.channel.run(self.inbox))
        await self.inbox.wait_online(self.inbox.onlines + 1)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.task
            self.task = None

    async def again(self) -> None:
        """Start anew: another channel with the same inbox."""
        await self.stop()
        self.channel = self.fresh()
        await self.online()

    async def stop_for_long(self) -> None:
        """Stop, as if what was heard so far were older than what the history is read again for."""
        await self.stop()
        cursor = json.loads(str(self.inbox.at))
        await asyncio.sleep(0.01)
        self.inbox.at = json.dumps({**cursor, "at": time.time() + OVERLAP_S})

    async def hear(self, events: int) -> list[Any]:
        """The first so many events, once they are there."""
        return await self.inbox.wait(events)

    async def acknowledged(self) -> None:
        """Until Slack has every acknowledgement."""
        await until(lambda: not self.double.pending)


async def until(holds: Callable[[], bool | Awaitable[bool]], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            outcome = holds()
            if outcome if isinstance(outcome, bool) else await outcome:
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def slack(tmp_path: Path, double: SlackDouble | None = None, **settings: Any) -> AsyncIterator[SlackHouse]:
    double = double or SlackDouble(repeat_s=0.3)
    async with serve(double) as url:
        house = SlackHouse(tmp_path, double, url, **settings)
        try:
            yield house
        finally:
            await house.stop()


__all__ = ["ANN", "BOB", "BOT", "ROOM", "SIGNING_SECRET", "SlackDouble", "SlackHouse", "slack", "until"]
