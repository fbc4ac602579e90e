"""A bot on a real server, and the channel that runs for it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ircds import Inspircd, IrcUser, Ngircd

from semel.channels.irc.channel import IrcChannel
from semel.channels.irc.settings import IrcSettings
from semel.gateway.ports import Incoming, Op
from semel.testing.inbox import KeptInbox

_numbers = itertools.count(1)


class House:
    """`bot` is the nick of the channel, `ann` and `ben` those of people, `room` a channel."""

    def __init__(self, server: Inspircd | Ngircd, tmp_path: Path) -> None:
        self.server, self.number = server, next(_numbers)
        self.bot, self.ann, self.ben, self.room = (f"{name}{self.number}" for name in ("semel", "ann", "ben", "#room"))
        self.inbox = KeptInbox(tmp_path / "files")
        self.ops = 0

    def channel(self, **settings: Any) -> IrcChannel:
        usual: dict[str, Any] = {"server": "127.0.0.1", "port": self.server.port, "tls": "none", "nick": self.bot}
        return IrcChannel("irc", IrcSettings(**(usual | {"pace": 0.0, "timeout": 5.0} | settings)))

    def user(self, nick: str, *channels: str, account: str | None = "") -> IrcUser:
        return self.server.user(nick, *channels, account=account)

    @asynccontextmanager
    async def running(self, channel: IrcChannel) -> AsyncIterator[asyncio.Task[None]]:
        """The channel hears, and has heard what was missed."""
        run = asyncio.create_task(channel.run(self.inbox))
        online = asyncio.create_task(self.inbox.wait_online(self.inbox.onlines + 1, 30.0))
        try:
            await asyncio.wait({run, online}, return_when=asyncio.FIRST_COMPLETED)
            if run.done():
                run.result()
            await online
            yield run
        finally:
            online.cancel()
            run.cancel()
            await asyncio.gather(run, online, return_exceptions=True)

    def op(self, address: str, text: str, **more: Any) -> Op:
        self.ops += 1
        return Op(f"key{self.number}-{self.ops}", "post", address, text, **more)

    async def heard(self, count: int) -> list[Incoming]:
        return await self.inbox.wait(count, 30.0)
