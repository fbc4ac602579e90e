"""A bot on a real Synapse, with people to talk to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from synapse import MatrixUser, Synapse

from semel.channels.matrix import MatrixSettings
from semel.channels.matrix.channel import MatrixChannel
from semel.gateway.ports import Incoming, Op
from semel.testing.inbox import KeptInbox

_keys = itertools.count(1)


class House:
    """`bot` is the channel's account; `alice` and `bob` are people."""

    def __init__(self, server: Synapse, number: int, where: Path) -> None:
        self.server, self.where = server, where
        self.bot = server.register(f"bot{number}")
        self.alice = server.register(f"alice{number}")
        self.bob = server.register(f"bob{number}")

    def channel(self, **settings: Any) -> MatrixChannel:
        """With a password, unless a token is given."""
        given = {"homeserver": self.server.url, **settings}
        if "token" not in given:
            given = {"user": self.bot.id, "password": "pw", **given}
        return MatrixChannel("chat", MatrixSettings(**given))

    def inbox(self, cursor: str | None = None) -> KeptInbox:
        return KeptInbox(self.where / "files", cursor)

    @asynccontextmanager
    async def running(
        self, channel: MatrixChannel | None = None, inbox: KeptInbox | None = None
    ) -> AsyncIterator[KeptInbox]:
        """The channel hears; what it heard is in the inbox."""
        inbox = inbox or self.inbox()
        task = asyncio.create_task((channel or self.channel()).run(inbox))
        online = asyncio.create_task(inbox.wait_online(inbox.onlines + 1, 60.0))
        try:
            await asyncio.wait({task, online}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield inbox
        finally:
            for each in (task, online):
                each.cancel()
            await asyncio.gather(task, online, return_exceptions=True)

    async def group(self, **more: Any) -> str:
        """A room of alice's with the bot and bob, who are in it."""
        room = await self.alice.create_room(invite=[self.bot.name, self.bob.name], **more)
        await self.bot.join(room)
        await self.bob.join(room)
        return room

    async def pair(self, who: MatrixUser | None = None, **more: Any) -> str:
        """A room of alice's (or another's) with the bot alone, who is in it."""
        room = await (who or self.alice).create_room(invite=[self.bot.name], **more)
        await self.bot.join(room)
        return room


def op(address: str, text: str = "", kind: Any = "post", **more: Any) -> Op:
    """A part with a key of its own."""
    return Op(**{"key": f"part-{next(_keys)}", "kind": kind, "address": address, "text": text, **more})


def messages(inbox: KeptInbox) -> list[Incoming]:
    return [event for event in inbox.events if event.kind == "message"]


async def until(inbox: KeptInbox, holds: Callable[[list[Incoming]], Any], seconds: float = 30.0) -> Any:
    """What `holds` finds in the events, once it finds it."""
    count = 0
    async with asyncio.timeout(seconds):
        while not (found := holds(inbox.events)):
            count = len(inbox.events) + 1
            await inbox.wait(count, seconds)
    return found
