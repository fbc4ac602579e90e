"""Serve a double to its programs: one connection for each run of `program.py`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from semel.testing.servers import close_server
from semel.testing.signal.double import SignalDouble

PROGRAM = Path(__file__).with_name("program.py")
IN_USE = "INFO  SignalAccount - Config file is in use by another instance, waiting…"


def double_command(port: int) -> list[str]:
    """Return the setting `command` with which a channel runs the double's program."""
    return [sys.executable, "-I", "-S", str(PROGRAM), str(port)]


@contextlib.asynccontextmanager
async def serve(double: SignalDouble, port: int = 0) -> AsyncIterator[int]:
    """Serve the double on 127.0.0.1. Yields the port."""
    links: set[asyncio.Task[None]] = set()
    lock = asyncio.Lock()  # on the account

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        links.add(task)
        try:
            await _Link(double, reader, writer).run(lock)
        except (OSError, EOFError):
            pass
        finally:
            links.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(begin, "127.0.0.1", port, limit=2**24)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        for task in list(links):
            task.cancel()
        await asyncio.gather(*links, return_exceptions=True)
        await close_server(server)


class _Link:
    """One run of the program."""

    def __init__(self, double: SignalDouble, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._double = double
        self._reader = reader
        self._writer = writer
        self._calls: set[asyncio.Task[None]] = set()
        self._dies = asyncio.Event()

    async def run(self, lock: asyncio.Lock) -> None:
        arguments = json.loads(await self._reader.readline())
        self._double.starts.append(arguments)
        if (refusal := self._double.refuse_start(arguments)) is not None:
            self._write(b"exit %d %s\n" % (refusal[0], refusal[1].encode()))
            await self._writer.drain()
            return
        if lock.locked():
            self._write(b"stderr " + IN_USE.encode() + b"\n")
        async with lock:
            await self._serve()

    async def _serve(self) -> None:
        delivering = asyncio.create_task(self._deliver())
        reading = asyncio.create_task(self._read_requests())
        dying = asyncio.create_task(self._dies.wait())
        try:
            await asyncio.wait({reading, dying}, return_when=asyncio.FIRST_COMPLETED)
            if self._calls and not self._dies.is_set():  # the input ended: what was asked is still answered
                await asyncio.wait(self._calls, timeout=5.0)
            with contextlib.suppress(OSError):
                await self._writer.drain()
        finally:
            for task in (delivering, reading, dying, *self._calls):
                task.cancel()
            await asyncio.gather(delivering, reading, dying, *self._calls, return_exceptions=True)

    async def _read_requests(self) -> None:
        while line := await self._reader.readline():
            word, _, number = line.strip().partition(b" ")
            if word == b"written":
                self._double.forget(int(number))
                continue
            task = asyncio.create_task(self._answer(line))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _answer(self, line: bytes) -> None:
        """Answer one request, unless a fault strikes it."""
        fault = self._double.take_fault(line)
        if fault is not None and not fault.after and fault.how in ("die", "hang"):
            await self._strike(fault.how)
            return
        if fault is not None and fault.how == "slow":
            await asyncio.sleep(fault.seconds)
        answer = self._double.answer(line, fault)
        if fault is not None and fault.how in ("die", "hang"):
            await self._strike(fault.how)
            return
        if answer is not None:
            self._write(b"answer " + json.dumps(answer, separators=(",", ":")).encode() + b"\n")

    async def _strike(self, how: str) -> None:
        if how == "die":
            self._dies.set()
        else:
            await asyncio.Event().wait()

    async def _deliver(self) -> None:
        """Hand over what is queued, each message once in this run."""
        handed: set[int] = set()
        while True:
            self._double.more.clear()
            for number, notification in list(self._double.queue.items()):
                if number not in handed:
                    handed.add(number)
                    self._write(b"%d %s\n" % (number, json.dumps(notification, separators=(",", ":")).encode()))
            await self._double.more.wait()

    def _write(self, line: bytes) -> None:
        self._writer.write(line)
