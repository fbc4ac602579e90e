"""Whole gateways as `semel up` runs them, that kill themselves where a test wants it.

    python -m semel.testing.mortal

Each line of stdin, a JSON object, is one life: a process of its own, forked from this one, which has all imported
(most of a start is imports) and no gateway itself. Each line of stdout is {"born": ID, "pid"} or {"dead": PID, "code"},
code as in `subprocess.Popen.returncode`. When stdin ends, every life does.

    {"id", "config": PATH, "data": PATH, "channel": NAME, "log": PATH, "cwd": PATH, "env": {...}, "paths": [...],
     "die"?: [POINT, NUMBER], "cursor"?: [TEXT]}

`die`: [POINT, NUMBER] is a SIGKILL to itself at the NUMBERth time: "received" (the channel has it, nothing is
committed), "committed" (it is, and the channel was not told so), "departing" (`sending` is durable, nothing left),
"answered" (the platform answered, nothing of that is recorded). `cursor`: [TEXT] is where the channel is told that it
was read to, instead of what the ledger says.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import semel.channels
from semel.faces.config.load import load
from semel.faces.log import configure
from semel.faces.run import open_house
from semel.gateway.ports import Channel, Inbox, Incoming, Op, Receipt
from semel.gateway.settings import ChannelSettings


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
    config = load(Path(told["config"]), Path(told["data"]), "127.0.0.1:0", "json")
    configure(config.log, False)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_house(config):
        await stop.wait()


def live(told: dict[str, Any]) -> None:
    """One life, in the process that was forked for it."""
    os.environ.clear()
    os.environ.update(told["env"])
    sys.path[:0] = told["paths"]
    os.chdir(told["cwd"])
    log = os.open(told["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((nothing, log, log)):
        os.dup2(file, number)
    asyncio.run(main(told))


def fork(told: dict[str, Any]) -> int:
    """The pid of a new life."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        live(told)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def tell(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def nursery() -> None:
    """Until stdin ends."""
    wakes, wakened = os.pipe()
    os.set_blocking(wakened, False)
    signal.set_wakeup_fd(wakened)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: set[int] = set()
    asked = b""
    while True:
        ready, _, _ = select.select([0, wakes], [], [])
        if wakes in ready:
            os.read(wakes, 4096)
            for pid in list(living):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    living.discard(pid)
                    tell(dead=pid, code=os.waitstatus_to_exitcode(status))
        if 0 in ready:
            came = os.read(0, 65536)
            if not came:
                break
            *lines, asked = (asked + came).split(b"\n")
            for line in lines:
                told = json.loads(line)
                pid = fork(told)
                living.add(pid)
                tell(born=told["id"], pid=pid)
    for pid in living:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    nursery()
