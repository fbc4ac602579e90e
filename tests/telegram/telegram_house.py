"""A double of Telegram, a channel that speaks with it, and an inbox that keeps what it hears."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from semel.channels.telegram.channel import TelegramChannel
from semel.channels.telegram.settings import TelegramSettings
from semel.gateway.ports import Op
from semel.testing.inbox import KeptInbox
from semel.testing.telegram import TelegramDouble, serve

ANNA = 7
GROUP = -100200300
FORUM = -1001000000500


class TelegramHouse:
    """`settings` are the channel's; a new channel with `channel()`, as after a restart."""

    def __init__(self, tmp_path: Path, double: TelegramDouble, url: str, **settings: Any) -> None:
        self.tmp_path = tmp_path
        self.double = double
        self.url = url
        self.more = {"pace": 0.0, "timeout": 5.0, **settings}
        self.inbox = KeptInbox(tmp_path / "files", cursor="0")
        self.channel = self.fresh()
        self._task: asyncio.Task[None] | None = None
        self._n = 0

    def fresh(self, **settings: Any) -> TelegramChannel:
        """A channel that remembers nothing."""
        told = {"token": self.double.token, "api": self.url, **self.more, **settings}
        return TelegramChannel("tg", TelegramSettings(**told))

    def op(self, text: str = "", *, to: str = str(ANNA), kind: Any = "post", **more: Any) -> Op:
        """A part with a key of its own."""
        self._n += 1
        return Op(key=more.pop("key", f"key-{self._n}"), kind=kind, address=to, text=text, **more)

    def file(self, content: bytes, name: str) -> Path:
        path = self.tmp_path / f"stored-{name}"
        path.write_bytes(content)
        return path

    def start(self) -> asyncio.Task[None]:
        """Let the channel hear."""
        self._task = asyncio.create_task(self.channel.run(self.inbox))
        return self._task

    async def online(self) -> None:
        self.start()
        await self.inbox.wait_online(self.inbox.onlines + 1)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task
            self._task = None

    async def hear(self, events: int) -> list[Any]:
        """The first so many events, once they are there."""
        return await self.inbox.wait(events)


@asynccontextmanager
async def telegram(
    tmp_path: Path, double: TelegramDouble | None = None, **settings: Any
) -> AsyncIterator[TelegramHouse]:
    double = double or TelegramDouble()
    double.person(ANNA, "Anna Arendt", "anna")
    async with serve(double) as url:
        house = TelegramHouse(tmp_path, double, url, **settings)
        try:
            yield house
        finally:
            await house.stop()


def png(wide: int = 3, high: int = 2) -> bytes:
    """A picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\xff\0\0" * wide for _ in range(min(high, 50)))
    head = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
