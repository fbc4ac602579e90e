"""A small HTTP/1.1 server whose answers can be streamed, held up and cut off in the middle.

A server of a framework would tidy up after us; a model that breaks off must really break off.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from semel.testing.servers import close_server

Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A request, read in full. Header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Json:
        return dict(json.loads(self.body))


class Reply:
    """One answer: whole with `send`, or streamed with `begin`, `event` ..., `end`."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    async def send(self, status: int, body: Json) -> None:
        """A whole JSON answer."""
        raw = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n"
        self.writer.write(f"{head}connection: close\r\n\r\n".encode() + raw)
        await self.writer.drain()

    async def begin(self) -> None:
        """Server-sent events follow, in chunks: an answer that is cut off can be told from one that ended."""
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
        self.writer.write(f"{head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n".encode())
        await self.writer.drain()

    async def event(self, data: Json | str, name: str | None = None) -> None:
        """One server-sent event."""
        text = data if isinstance(data, str) else json.dumps(data)
        raw = (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
        self.writer.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        await self.writer.drain()

    async def end(self) -> None:
        """The stream is complete."""
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def cut(self) -> None:
        """The connection is reset, after what was written had time to arrive."""
        await asyncio.sleep(0.5)  # a reset takes away what a busy reader has not read
        self.writer.transport.abort()


Handler = Callable[[Request, Reply], Awaitable[None]]


class Server:
    """`async with Server(handler) as server`: listens on 127.0.0.1:`port` until the block ends."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.faults: list[BaseException] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, limit=1 << 26)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await close_server(self._server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                if request := await _read(reader):
                    await self.handler(request, Reply(writer))
        except Exception as fault:
            self.faults.append(fault)
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    first = await reader.readline()
    if not first.strip():
        return None
    method, path, _ = first.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = await _chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path.partition("?")[0], headers, body)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body
