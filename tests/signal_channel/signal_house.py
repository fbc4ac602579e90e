"""A double of signal-cli, a channel that runs it, and an inbox that keeps what it hears."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from semel.channels.signal.channel import SignalChannel
from semel.channels.signal.settings import SignalSettings
from semel.gateway.ports import Op
from semel.testing.inbox import KeptInbox
from semel.testing.signal import ACCOUNT, ACCOUNT_ID, SignalDouble, double_command, serve


class SignalHouse:
    """`ann`, `bob`: people. `room`: a group of both."""

    def __init__(self, tmp_path: Path, double: SignalDouble, port: int, **settings: Any) -> None:
        self.tmp_path = tmp_path
        self.double = double
        self.port = port
        self.more = settings
        self.inbox = KeptInbox(tmp_path / "files")
        self.config = tmp_path / "signal-cli"
        (self.config / "data").mkdir(parents=True)
        (self.config / "data" / "accounts.json").write_text(
            f'{{"accounts": [{{"path": "1", "number": "{ACCOUNT}", "uuid": "{ACCOUNT_ID}"}}], "version": 2}}'
        )
        self.ann, self.bob = double.person("Ann"), double.person("Bob")
        self.room = double.group("Family", self.ann, self.bob)
        self.channel = self.fresh()
        self.task: asyncio.Task[None] | None = None
        self._n = 0

    def fresh(self, **settings: Any) -> SignalChannel:
        """A channel that remembers nothing, as after a restart."""
        fields = {"account": ACCOUNT, "command": double_command(self.port), "config": str(self.config)}
        return SignalChannel(
            "signal", SignalSettings(**{**fields, "timeout": 5.0, "pace": 0.0, **self.more, **settings})
        )

    @property
    def journal(self) -> Path:
        return self.channel.settings.journal_folder

    def op(self, text: str = "", *, to: str | None = None, kind: Any = "post", **more: Any) -> Op:
        """A part with a key of its own."""
        self._n += 1
        return Op(more.pop("key", f"key-{self._n}"), kind, to or self.ann, text, **more)

    async def online(self) -> None:
        self.task = asyncio.create_task(self.channel.run(self.inbox))
        online = asyncio.create_task(self.inbox.wait_online(self.inbox.onlines + 1))
        await asyncio.wait({self.task, online}, return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            online.cancel()
            await self.task
        await online

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


async def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def signal(tmp_path: Path, **settings: Any) -> AsyncIterator[SignalHouse]:
    double = SignalDouble()
    async with serve(double) as port:
        house = SignalHouse(tmp_path, double, port, **settings)
        try:
            yield house
        finally:
            await house.stop()


__all__ = ["ACCOUNT", "ACCOUNT_ID", "SignalDouble", "SignalHouse", "signal", "until"]
