"""A server that answers as a test says, byte by byte, and counts what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from semel.testing.servers import serve_streams

Way: TypeAlias = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    port: int = 0
    connections: int = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"


@asynccontextmanager
async def serve(way: Way, tls: ssl.SSLContext | None = None, greeting: bytes = b"") -> AsyncIterator[Server]:
    """Read one request from each connection, then do what `way` does, then close it."""
    server = Server()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            writer.write(greeting)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in headers.items()}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            server.requests.append(Request(head[0], headers, body))
            await way(server.requests[-1], writer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass

    async with serve_streams(talk, tls=tls) as server.port:
        yield server


def answers(status: int, body: bytes = b"", **headers: str) -> Way:
    """Answer every request alike; `retry_after="5"` is the header Retry-After."""

    async def way(request: Request, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} Status", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    return way


async def drops(request: Request, writer: asyncio.StreamWriter) -> None:
    """Take the request and say nothing."""


async def hangs(request: Request, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def breaks_off(request: Request, writer: asyncio.StreamWriter) -> None:
    """A good status, and half of the promised body."""
    writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"id": "m')
