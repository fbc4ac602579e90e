"""Whole gateways as `semel up` runs them, that kill themselves where a test wants it.

    python -m semel.testing.mortal

Each line of stdin is one life, a process of its own, as `semel.testing.forking` has it:

    {"id", "config": PATH, "data": PATH, "channel": NAME, "log": PATH, "cwd": PATH, "env": {...}, "paths": [...],
     "die"?: [POINT, NUMBER], "cursor"?: [TEXT]}

`die`: [POINT, NUMBER] is a SIGKILL to itself at the NUMBERth time: "received" (the channel has it, nothing is
committed), "committed" (it is, and the channel was not told so), "departing" (`sending` is durable, nothing left),
"answered" (the platform answered, nothing of that is recorded). `cursor`: [TEXT] is where the channel is told that it
was read to, instead of what the ledger says.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import semel.channels
from semel.gateway.ports import Channel, Inbox, Incoming, Op, Receipt
from semel.gateway.settings import ChannelSettings
from semel.testing.forking import gateway, nursery, settle_in


class Mortal:
    """Counts the points that are passed, and dies at one of them."""

    def __init__(self, point: str = "", number: int = 0) -> None:
        self.point, self.number = point, number
        self.passed: Counter[str] = Counter()

    def passes(self, point: str) -> None:
        self.passed[point] += 1
        if point == self.point and self.passed[point] >= self.number:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalInbox:
    """The gateway's inbox; everything that is not changed here is its own."""

    def __init__(self, inbox: Inbox, mortal: Mortal, cursor: list[str | None] | None) -> None:
        self._inbox, self._mortal, self._cursor = inbox, mortal, cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    async def cursor(self) -> str | None:
        if self._cursor is not None:
            return self._cursor.pop() if self._cursor else await self._inbox.cursor()
        return await self._inbox.cursor()

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        if events:
            self._mortal.passes("received")
        await self._inbox.put(events, cursor)
        if events:
            self._mortal.passes("committed")

    async def hear(self, **event: Any) -> Any:
        self._mortal.passes("received")
        heard = await self._inbox.hear(**event)
        self._mortal.passes("committed")
        return heard


def endanger(channel: Any, mortal: Mortal, cursor: list[str | None] | None) -> None:
    """From here on the channel's calls pass the points. `cursor` is told once: what follows is the ledger's."""
    run, send, receive = channel.run, channel.send, getattr(channel, "receive", _deaf)

    async def run_(inbox: Inbox) -> None:
        await run(MortalInbox(inbox, mortal, cursor))

    async def send_(op: Op) -> Receipt:
        mortal.passes("departing")
        receipt: Receipt = await send(op)
        mortal.passes("answered")
        return receipt

    async def receive_(inbox: Inbox, headers: Any, body: bytes) -> Any:
        return await receive(MortalInbox(inbox, mortal, None), headers, body)

    channel.run, channel.send = run_, send_
    if receive is not _deaf:
        channel.receive = receive_


async def _deaf(*args: Any) -> Any:
    """A channel that nobody calls over HTTP."""


async def main(told: dict[str, Any]) -> None:
    mortal = Mortal(*told.get("die", ()))
    make_all = semel.channels.make_all

    def make(settings: Mapping[str, ChannelSettings]) -> dict[str, Channel]:
        made = make_all(settings)
        endanger(made[told["channel"]], mortal, told.get("cursor"))
        return made

    semel.channels.make_all = make
    await gateway(Path(told["config"]), Path(told["data"]))


def live(told: dict[str, Any]) -> None:
    """One life, in the process that was forked for it."""
    settle_in(told["env"], told["cwd"], told["log"])
    sys.path[:0] = told["paths"]
    asyncio.run(main(told))


if __name__ == "__main__":
    nursery(live)
