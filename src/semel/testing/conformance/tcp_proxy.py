"""The proxy for platforms that speak anything but HTTP: two streams, and a count of what was said in one of them."""

from __future__ import annotations

import asyncio

from semel.testing.conformance.proxy import LINGER, PIECE, Fault, Proxy, Strike, gone
from semel.testing.conformance.rig import TcpFront

HEAD = 2
"""Bytes of an answer that breaks off."""


class TcpProxy(Proxy):
    kind = "tcp"

    def __init__(self, front: TcpFront) -> None:
        super().__init__(front.port)
        self._count = front.count
        self.refusals = {Strike.NOT_NOW: front.not_now, Strike.NO: front.no}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self.platform() as platform:
            await _Connection(self, (reader, writer), platform).run()

    def count(self, sent: bytes) -> int:
        return self._count(sent)


class _Connection:
    """One connection of the channel, and the one it has to the platform in turn."""

    def __init__(
        self,
        proxy: TcpProxy,
        channel: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        platform: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.proxy = proxy
        self.reader, self.writer = channel
        self.platform, self.to_platform = platform
        self.strike: Strike | None = None
        self.answered = asyncio.Event()  # the platform said something after the strike
        self._sent = bytearray()
        self._said = 0

    async def run(self) -> None:
        back = asyncio.create_task(self._back())
        try:
            await self._there()
            match self.strike:
                case None:
                    self.to_platform.write_eof()
                    await back
                case Strike.DROP:
                    self.proxy.dropped += 1
                    await self._taken()
                case Strike.CUT_HEAD:
                    await self._taken()
                    self.writer.write_eof()
                    await gone(self.reader)
                case Strike.LOSE:
                    pass
                case _:
                    await gone(self.reader)
        finally:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)

    async def _there(self) -> None:
        """What the channel sends, until it hangs up or a fault strikes."""
        while piece := await self.reader.read(PIECE):
            self._sent += piece
            said = self.proxy.count(bytes(self._sent))
            for _ in range(said - self._said):
                fault = self.proxy.meets()
                self.strike = fault.strike if fault and self.strike is None else self.strike
            self._said = said
            if self.strike is None or Fault(self.strike).reaches_platform:
                self.to_platform.write(piece)
                await self.to_platform.drain()
            if self.strike in self.proxy.refusals:
                if await self._refused():
                    return
            elif self.strike is not None:
                return

    async def _refused(self) -> bool:
        """Whether the refusal was written: it may need more of what the channel sends behind its message."""
        answer = self.proxy.refusals[self.strike] if self.strike is not None else None
        refusal = answer(bytes(self._sent)) if answer is not None else b""
        self.writer.write(refusal)
        await self.writer.drain()
        return bool(refusal)

    async def _back(self) -> None:
        """What the platform answers; after a strike nothing of it arrives, or its first bytes."""
        while piece := await self.platform.read(PIECE):
            if self.strike is None:
                self.writer.write(piece)
                await self.writer.drain()
                continue
            if self.strike is Strike.CUT_HEAD and not self.answered.is_set():
                self.writer.write(piece[:HEAD])
                await self.writer.drain()
            self.answered.set()
        if self.strike is None:
            self.writer.close()

    async def _taken(self) -> None:
        """Until the platform has dealt with what was said: it answered, or had the time to."""
        try:
            async with asyncio.timeout(LINGER):
                await self.answered.wait()
        except TimeoutError:
            pass
