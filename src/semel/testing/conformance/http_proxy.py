"""The proxy for platforms that speak HTTP: each request has a connection of its own to the platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import h11

from semel.testing.conformance.proxy import PIECE, Fault, Proxy, Strike, gone
from semel.testing.conformance.rig import HttpFront, Request

HOPS = frozenset({"connection", "content-length", "transfer-encoding", "expect", "keep-alive"})
"""Headers that belong to one connection (RFC 9110, 7.6.1)."""
REDIRECTED = "redirected=1"
"""In the query of where a redirect leads: the platform takes it there, too."""
PAGE = b"<!doctype html><title>Welcome</title><p>Please log in to this network."
"""What something before the platform answers with: no API's answer."""
HEAD = 11
"""Bytes of an answer that breaks off at once: it ends inside the status."""


class HttpProxy(Proxy):
    kind = "http"

    def __init__(self, front: HttpFront) -> None:
        super().__init__(front.port)
        self._says = front.says
        self.losses = (Fault(Strike.DROP), Fault(Strike.CUT_HEAD), Fault(Strike.STATUS, 502, 0, PAGE, True))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read(reader)
        if REDIRECTED in request.target:
            self.followed += 1
        fault = self.meets() if self._says(request) else None
        if fault is None:
            async for piece in self._answer(request):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            await gone(reader)
            return
        answer = await self._whole(request) if fault.reaches_platform else b""
        self.dropped += fault in self.losses
        match fault.strike:
            case Strike.DROP | Strike.LOSE:
                pass
            case Strike.HANG | Strike.HANG_AFTER:
                await gone(reader)
            case _:
                writer.write(self._instead(fault, request, answer))
                writer.write_eof()
                await gone(reader)

    def _instead(self, fault: Fault, request: Request, answer: bytes) -> bytes:
        """What the channel reads in place of the platform's whole answer."""
        if fault.strike is Strike.CUT_HEAD:
            return answer[:HEAD]
        if fault.strike is Strike.CUT_BODY:
            head, end, body = answer.partition(b"\r\n\r\n")
            return head + end + body[: len(body) // 2]
        query = "&" if "?" in request.target else "?"
        return _head(fault, f"http://127.0.0.1:{self.port}{request.target}{query}{REDIRECTED}") + fault.body

    async def _whole(self, request: Request) -> bytes:
        return b"".join([piece async for piece in self._answer(request)])

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


def _head(fault: Fault, here: str) -> bytes:
    lines = [
        f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}",
        f"content-type: {'application/json' if fault.body.startswith(b'{') else 'text/html'}",
        f"content-length: {len(fault.body)}",
        "connection: close",
        *([f"retry-after: {fault.seconds}"] if fault.seconds else []),
        *([f"location: {here}"] if fault.redirects else []),
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
