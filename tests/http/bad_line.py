"""A line between a browser and a gateway that breaks in seeded, random ways: a TCP proxy for tests."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections import Counter

CHUNK_BYTES = 65536
LONGEST_STALL_S = 0.4
RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time: the other side gets a reset

FAULTS = (
    "reset",  # every connection
    "close",  # every connection, in order
    "half-close",  # one side of every connection is told the end, the other is not
    "stall",  # nothing moves for a time, and then it does
    "swallow",  # connections stay open, and nothing moves on them ever again
    "dead arrivals",  # new connections are taken, and nothing ever moves on them
    "cut answer",  # the next bytes from the gateway break off
    "cut request",  # the next request with a body breaks off
    "lost answer",  # the next request with a body arrives, its answer does not
)


class _Connection:
    def __init__(self, browser: asyncio.StreamWriter, gateway: asyncio.StreamWriter) -> None:
        self.browser = browser
        self.gateway = gateway
        self.is_swallowed = False
        self.loses_answer = False

    def reset(self) -> None:
        for end in (self.browser, self.gateway):
            with contextlib.suppress(OSError):
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            end.transport.abort()

    def close(self) -> None:
        self.browser.close()
        self.gateway.close()


class BadLine:
    """A line to `target`, a port of this machine. It is good until `break_down`. `faults` counts those that struck."""

    def __init__(self, target: int, seed: int) -> None:
        self.faults: Counter[str] = Counter()
        self.port = 0
        self._target = target
        self._random = random.Random(seed)
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._moves = asyncio.Event()
        self._moves.set()
        self._armed = ""  # the fault that waits for the bytes that it strikes
        self._server: asyncio.Server

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def break_down(self, count: int) -> None:
        """Let `count` faults strike, one after another, each among some traffic. Then the line is good again."""
        while self.faults.total() < count:
            await asyncio.sleep(self._random.uniform(0.01, 0.15))
            await self._strike(self._random.choice(FAULTS))
        self._armed = ""

    async def _strike(self, fault: str) -> None:
        if fault in ("cut answer", "cut request", "lost answer", "dead arrivals"):
            await self._arm(fault)
            return
        if not self._connections:
            return
        self.faults[fault] += 1
        if fault == "stall":
            self._moves.clear()
            await asyncio.sleep(self._random.uniform(0.02, LONGEST_STALL_S))
            self._moves.set()
        for connection in list(self._connections):
            if fault == "reset":
                connection.reset()
            elif fault == "close":
                connection.close()
            elif fault == "swallow":
                connection.is_swallowed = True
            elif fault == "half-close":
                end = self._random.choice((connection.browser, connection.gateway))
                with contextlib.suppress(OSError, RuntimeError):
                    end.write_eof()

    async def _arm(self, fault: str) -> None:
        """Wait for what the fault strikes. If that does not come, the next one has its turn."""
        self._armed = fault
        for _ in range(20):
            await asyncio.sleep(0.02)
            if not self._armed:
                return
        if fault != "dead arrivals":
            self._armed = ""

    def _fires(self, fault: str) -> bool:
        if self._armed != fault:
            return False
        self._armed = ""
        self.faults[fault] += 1
        return True

    async def _accept(self, from_browser: asyncio.StreamReader, browser: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            from_gateway, gateway = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            browser.close()
            self._tasks.discard(task)
            return
        connection = _Connection(browser, gateway)
        connection.is_swallowed = self._fires("dead arrivals")
        self._connections.add(connection)
        try:
            await asyncio.gather(
                self._pass_on(connection, from_browser, gateway), self._pass_on(connection, from_gateway, browser)
            )
        except asyncio.CancelledError:
            pass  # the line is closed; a server's own callback would report this as an error
        finally:
            self._connections.discard(connection)
            self._tasks.discard(task)
            connection.close()

    async def _pass_on(
        self, connection: _Connection, source: asyncio.StreamReader, target: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            while chunk := await source.read(CHUNK_BYTES):
                await self._moves.wait()
                if connection.is_swallowed:
                    continue
                if target is connection.gateway:
                    chunk = self._of_request(connection, chunk)
                else:
                    chunk = self._of_answer(connection, chunk)
                target.write(chunk)
                await target.drain()
            if connection.is_swallowed and source.at_eof() and target is connection.browser:
                return  # the gateway gave up: the browser is not told
            target.write_eof()

    def _of_request(self, connection: _Connection, chunk: bytes) -> bytes:
        """What of these bytes reaches the gateway."""
        if not chunk.startswith(b"POST"):
            return chunk
        if self._fires("cut request"):
            asyncio.get_running_loop().call_later(0.005, connection.reset)  # once the first bytes have left
            connection.is_swallowed = True
            return chunk[: self._random.randrange(len(chunk))]
        if self._fires("lost answer"):
            connection.loses_answer = True
        return chunk

    def _of_answer(self, connection: _Connection, chunk: bytes) -> bytes:
        """What of these bytes reaches the browser."""
        if connection.loses_answer or self._fires("cut answer"):
            asyncio.get_running_loop().call_later(0.005, connection.close)
            connection.is_swallowed = True
            return chunk[: self._random.randrange(len(chunk))]
        return chunk
