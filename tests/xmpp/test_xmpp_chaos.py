"""Many messages over a line that breaks, before and after the server took them: each arrives once, in order."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from xmpp_house import House

from semel.channels.xmpp.channel import XmppChannel
from semel.gateway.ports import NotSent, Offline, Op, Receipt, Unknown

pytestmark = pytest.mark.channels
MESSAGES = 60
SETTLE = 0.3
"""Seconds: this server archives before it answers; a channel's own settle time is for those that do not."""


class Line:
    """A proxy before the server. Of the messages, some never arrive, and some arrive and are never answered."""

    def __init__(self, target: int, seed: int) -> None:
        self.target, self.port = target, 0
        self.faults: Counter[str] = Counter()
        self.chance = random.Random(seed)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        pumps = [asyncio.create_task(self.up(reader, back)), asyncio.create_task(self.down(there, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for each in (writer, back):
            each.close()

    async def up(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            luck = self.chance.random() if b"<message" in data else 1.0
            if luck < 0.15:
                self.faults["lost"] += 1
                return
            back.write(data)
            await back.drain()
            if luck < 0.3:
                self.faults["taken, and not answered"] += 1
                return

    async def down(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await there.read(65536):
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def broken_line(target: int, seed: int) -> AsyncIterator[Line]:
    line = Line(target, seed)
    server = await asyncio.start_server(line.talk, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    async with server:
        yield line


async def deliver(channel: XmppChannel, op: Op) -> Receipt:
    """As the outbox does it: what was not sent is sent again, what is unknown is looked up first."""
    while True:
        try:
            return await channel.send(op)
        except NotSent:
            continue
        except Unknown:
            await asyncio.sleep(SETTLE)
        while True:
            with contextlib.suppress(Unknown):
                found = await channel.find(op, 0.0)
                break
        if found is not None:
            return found


async def keep_hearing(channel: XmppChannel, house: House) -> None:
    """As the gateway does it: run again, whenever the line broke."""
    while True:
        with contextlib.suppress(Offline):
            await channel.run(house.inbox)


@pytest.mark.parametrize("where", ["chat", "chat without run", "room"])
async def test_a_line_that_breaks_neither_doubles_nor_loses_nor_reorders(house: House, where: str) -> None:
    async with house.user("alice") as alice, broken_line(house.server.port, seed=7) as line:
        await alice.join(house.room, "alice")
        channel = house.channel(port=line.port, rooms=[house.room] if where == "room" else [])
        run = asyncio.create_task(keep_hearing(channel, house)) if where != "chat without run" else None
        address = house.room if where == "room" else house.jid("alice")
        sent = [house.op("post", address, f"text {n}") for n in range(MESSAGES)]
        receipts = [await deliver(channel, op) for op in sent]
        if run is not None:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
        arrived = await (alice.room_archive(house.room) if where == "room" else alice.archive(house.bot))
        assert [each.text for each in arrived] == [op.text for op in sent]
        assert [each.origin for each in arrived] == [op.key for op in sent]
        if where == "room":
            assert [receipt.id for receipt in receipts] == [f"{house.room}/{each.id}" for each in arrived]
        assert min(line.faults.values()) > 3 and len(line.faults) == 2, line.faults
