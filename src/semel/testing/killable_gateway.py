"""A fork server for gateways that kill themselves at a point that a test chooses.

    python -m semel.testing.killable_gateway

Each line of stdin starts a process, as in `semel.testing.forking`:

    {"id", "config": PATH, "data": PATH, "channel": NAME, "log": PATH, "cwd": PATH, "env": {...}, "paths": [...],
     "die"?: [POINT, NUMBER], "cursor"?: [TEXT]}

`die`: the process sends itself SIGKILL when it passes POINT for the NUMBERth time: "received" (the channel has an
event, nothing is committed), "committed" (the event is committed, the channel is not told yet), "departing" (`sending`
is durable, nothing has left), "answered" (the platform has answered, the answer is not recorded yet). `cursor`: a list
whose one item the channel gets as its cursor at its start, instead of the cursor in the ledger. `log`: the file for
stdout and stderr. `paths`: directories that are put on `sys.path`.
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
from semel.testing.forking import run_gateway, serve_forks, set_up_process


class DeathPlan:
    """Counts how often each point is passed; kills the process when it passes `point` for the `number`th time."""

    def __init__(self, point: str = "", number: int = 0) -> None:
        self.point, self.number = point, number
        self.passed: Counter[str] = Counter()

    def pass_point(self, point: str) -> None:
        self.passed[point] += 1
        if point == self.point and self.passed[point] >= self.number:
            os.kill(os.getpid(), signal.SIGKILL)


class DeathPlanInbox:
    """Wraps the gateway's inbox: each delivery passes "received" before the commit and "committed" after it.

    `cursor`: if it contains a cursor, `cursor()` returns this one until a delivery was recorded. The wrappers of all
    runs of a channel share the list, so a run that loses its platform before that changes nothing.
    """

    def __init__(self, inbox: Inbox, mortal: DeathPlan, cursor: list[str | None] | None) -> None:
        self._inbox, self._mortal, self._cursor = inbox, mortal, cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    async def cursor(self) -> str | None:
        return self._cursor[0] if self._cursor else await self._inbox.cursor()

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        if events:
            self._mortal.pass_point("received")
        await self._inbox.put(events, cursor)
        if events and self._cursor:
            self._cursor.clear()
        if events:
            self._mortal.pass_point("committed")

    async def hear(self, **event: Any) -> Any:
        self._mortal.pass_point("received")
        outcome = await self._inbox.hear(**event)
        self._mortal.pass_point("committed")
        return outcome


def pass_death_points(channel: Any, death_plan: DeathPlan, cursor: list[str | None] | None) -> None:
    """Wrap the channel's methods so that its calls pass the points of `death_plan`. `cursor`: see `DeathPlanInbox`."""
    run, send, receive = channel.run, channel.send, getattr(channel, "receive", _receive_nothing)

    async def run_(inbox: Inbox) -> None:
        await run(DeathPlanInbox(inbox, death_plan, cursor))

    async def send_(op: Op) -> Receipt:
        death_plan.pass_point("departing")
        receipt: Receipt = await send(op)
        death_plan.pass_point("answered")
        return receipt

    async def receive_(inbox: Inbox, headers: Any, body: bytes) -> Any:
        return await receive(DeathPlanInbox(inbox, death_plan, None), headers, body)

    channel.run, channel.send = run_, send_
    if receive is not _receive_nothing:
        channel.receive = receive_


async def _receive_nothing(*args: Any) -> Any:
    """Stand in for `receive` of a channel that has no such method."""


async def run_mortal_gateway(job: dict[str, Any]) -> None:
    death_plan = DeathPlan(*job.get("die", ()))
    make_all = semel.channels.make_all

    def make(settings: Mapping[str, ChannelSettings]) -> dict[str, Channel]:
        channels = make_all(settings)
        pass_death_points(channels[job["channel"]], death_plan, job.get("cursor"))
        return channels

    semel.channels.make_all = make
    await run_gateway(Path(job["config"]), Path(job["data"]))


def run_process(job: dict[str, Any]) -> None:
    """Run one gateway in this process, which was forked for it. `job`: its parsed line of stdin."""
    set_up_process(job["env"], job["cwd"], job["log"])
    sys.path[:0] = job["paths"]
    asyncio.run(run_mortal_gateway(job))


if __name__ == "__main__":
    serve_forks(run_process)
