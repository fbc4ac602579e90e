"""The proxy for platforms that speak HTTP: each request has a connection of its own to the platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import h11

from semel.testing.conformance.proxy import PIECE, Fault, Proxy, Strike, gone
from semel.testing.conformance.rig import HttpFront, Request

HOPS = frozenset({"connection", "content-length", "transfer-encoding", "expect", "keep-alive"})
"""Headers that belong to one connection (RFC 9110, 7.6.1)."""
REASONS = {429: "Too Many Requests", 502: "Bad Gateway", 503: "Service Unavailable"}


class HttpProxy(Proxy):
    kind = "http"

    def __init__(self, front: HttpFront) -> None:
        super().__init__(front.port)
        self._says = front.says

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read(reader)
        fault = self.meets() if self._says(request) else None
        match fault:
            case None:
                async for piece in self._answer(request):
                    writer.write(piece)
                    await writer.drain()
                writer.write_eof()
                await gone(reader)
            case Fault(strike=Strike.DROP):
                self.dropped += 1
                async for _ in self._answer(request):
                    pass
            case Fault(strike=Strike.HANG_AFTER):
                async for _ in self._answer(request):
                    pass
                await gone(reader)
            case Fault(strike=Strike.HANG):
                await gone(reader)
            case Fault(strike=Strike.STATUS):
                writer.write(_refusal(fault))
                writer.write_eof()
                await gone(reader)

    async def _answer(self, request: Request) -> AsyncIterator[bytes]:
        """What the platform answers, as it comes."""
        async with self.platform() as (reader, writer):
            writer.write(_bytes(request))
            await writer.drain()
            while piece := await reader.read(PIECE):
                yield piece


async def read(reader: asyncio.StreamReader) -> Request:
    """One request with its body. Raises EOFError where there is none."""
    wire = h11.Connection(h11.SERVER, max_incomplete_event_size=PIECE)
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            data = await reader.read(PIECE)
            if not data and head is None:
                raise EOFError
            wire.receive_data(data)
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        else:
            break
    if head is None:
        raise EOFError
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
    return Request(head.method.decode("ascii"), head.target.decode("ascii"), headers, bytes(body))


def _bytes(request: Request) -> bytes:
    kept = {name: value for name, value in request.headers.items() if name not in HOPS}
    headers = {**kept, "connection": "close", "content-length": str(len(request.body))}
    lines = [f"{request.method} {request.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body


def _refusal(fault: Fault) -> bytes:
    lines = [
        f"HTTP/1.1 {fault.status} {REASONS.get(fault.status, 'No')}",
        "content-type: application/json",
        f"content-length: {len(fault.body)}",
        "connection: close",
        *([f"retry-after: {fault.seconds}"] if fault.seconds else []),
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + fault.body
