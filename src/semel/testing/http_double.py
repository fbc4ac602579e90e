"""Serve HTTP/1.1 for a double, so that a fault can close a connection at any byte. No server library allows that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import h11

from semel.testing.http_requests import HttpRequest, read_request
from semel.testing.servers import serve_streams


@dataclass(frozen=True)
class HttpReply:
    """An answer to one request."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class ReplyCut(Exception):
    """The connection is to be closed after the first bytes of `reply`, or at once if it is None."""

    def __init__(self, reply: HttpReply | None = None) -> None:
        super().__init__()
        self.reply = reply


Handler = Callable[[HttpRequest], Awaitable[HttpReply]]
"""Answers a request, or raises ReplyCut."""


@asynccontextmanager
async def serve_http(handle: Handler, port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Serve until the `async with` block ends. Port 0: any free one. Yields the URL."""
    async with serve_streams(partial(_serve_connection, handle), port, host) as chosen_port:
        yield f"http://{host}:{chosen_port}"


async def _serve_connection(handle: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    wire = h11.Connection(h11.SERVER)
    try:
        while True:
            reply = await handle(await read_request(reader, wire))
            writer.write(_encode_reply(wire, reply))
            await writer.drain()
            if wire.our_state is not h11.DONE or wire.their_state is not h11.DONE:
                break
            wire.start_next_cycle()
    except ReplyCut as cut:
        if cut.reply is not None:
            whole = _encode_reply(wire, cut.reply)
            writer.write(whole[: len(whole) - len(cut.reply.body) // 2 - 1])
            with suppress(ConnectionError):
                await writer.drain()
        writer.transport.abort()
    except (h11.RemoteProtocolError, ConnectionError, EOFError):
        pass
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def _encode_reply(wire: h11.Connection, reply: HttpReply) -> bytes:
    headers = {**reply.headers, "content-length": str(len(reply.body))} if reply.status != 204 else dict(reply.headers)
    parts = (
        wire.send(h11.Response(status_code=reply.status, headers=list(headers.items()))),
        wire.send(h11.Data(data=reply.body)) if reply.body else b"",
        wire.send(h11.EndOfMessage()),
    )
    return b"".join(part or b"" for part in parts)
