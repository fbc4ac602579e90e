"""The network between a channel and its platform: a proxy before each port.

The HTTP proxy opens a connection of its own to the platform for each request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from http import HTTPStatus

from semel.testing.conformance.proxy import (
    CHUNK_BYTES,
    Disturbance,
    NetworkFault,
    NetworkFaultKind,
    Proxy,
    TcpProxy,
    wait_until_closed,
)
from semel.testing.conformance.rig import HttpFront, Rig
from semel.testing.http_requests import HttpRequest, read_request

CONNECTION_HEADERS = frozenset({"connection", "content-length", "transfer-encoding", "expect", "keep-alive"})
"""Headers that belong to one connection (RFC 9110, 7.6.1)."""
REDIRECT_QUERY = "redirected=1"
"""The query that marks the target of our redirects, so that a followed redirect is noticed."""
LOGIN_PAGE = b"<!doctype html><title>Welcome</title><p>Please log in to this network."
"""A page that something in front of the platform sends, such as a hotel's network, instead of the platform's answer."""
CUT_HEAD_BYTES = 11
"""How many bytes arrive of an answer that breaks off at once: too few for the status line."""


class HttpProxy(Proxy):
    def __init__(self, front: HttpFront) -> None:
        super().__init__(front.port)
        self._is_message = front.says
        self.losses = (
            NetworkFault(NetworkFaultKind.DROP),
            NetworkFault(NetworkFaultKind.CUT_HEAD),
            NetworkFault(NetworkFaultKind.STATUS, 502, 0, LOGIN_PAGE, True),
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        if REDIRECT_QUERY in request.target:
            self.followed += 1
        fault = (self.next_fault() if self._is_message(request) else None) or self.next_disturbance()
        if fault is None:
            async for piece in self._stream_answer(request):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            await wait_until_closed(reader)
            return
        answer = await self._read_answer(request) if fault.reaches_platform else b""
        self.dropped += fault in self.losses
        match fault.strike:
            case NetworkFaultKind.DROP | NetworkFaultKind.LOSE:
                pass
            case NetworkFaultKind.HANG | NetworkFaultKind.HANG_AFTER:
                await wait_until_closed(reader)
            case _:
                writer.write(self._faulty_answer(fault, request, answer))
                writer.write_eof()
                await wait_until_closed(reader)

    def _faulty_answer(self, fault: NetworkFault, request: HttpRequest, answer: bytes) -> bytes:
        """Return the bytes that the channel gets instead of `answer`, the platform's answer."""
        if fault.strike is NetworkFaultKind.CUT_HEAD:
            return answer[:CUT_HEAD_BYTES]
        if fault.strike is NetworkFaultKind.CUT_BODY:
            head, end, body = answer.partition(b"\r\n\r\n")
            return head + end + body[: len(body) // 2]
        query = "&" if "?" in request.target else "?"
        return (
            _encode_answer_head(fault, f"http://127.0.0.1:{self.port}{request.target}{query}{REDIRECT_QUERY}")
            + fault.body
        )

    async def _read_answer(self, request: HttpRequest) -> bytes:
        return b"".join([piece async for piece in self._stream_answer(request)])

    async def _stream_answer(self, request: HttpRequest) -> AsyncIterator[bytes]:
        """Pass the request to the platform. Yields its answer in chunks as they arrive."""
        async with self.platform() as (reader, writer):
            writer.write(_encode_request(request))
            await writer.drain()
            while piece := await reader.read(CHUNK_BYTES):
                yield piece


def _encode_request(request: HttpRequest) -> bytes:
    forwarded = {name: value for name, value in request.headers.items() if name not in CONNECTION_HEADERS}
    headers = {**forwarded, "connection": "close", "content-length": str(len(request.body))}
    lines = [f"{request.method} {request.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body


def _encode_answer_head(fault: NetworkFault, location: str) -> bytes:
    lines = [
        f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}",
        f"content-type: {'application/json' if fault.body.startswith(b'{') else 'text/html'}",
        f"content-length: {len(fault.body)}",
        "connection: close",
        *([f"retry-after: {fault.seconds}"] if fault.seconds else []),
        *([f"location: {location}"] if fault.redirects else []),
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"


@dataclass(frozen=True)
class ProxiedNetwork:
    """The proxies before all ports. `all`: by the port's name. `send`: the one through which messages leave."""

    all: dict[str, Proxy]

    @property
    def send(self) -> Proxy:
        return next(iter(self.all.values()))

    @property
    def ports(self) -> dict[str, int]:
        return {name: proxy.port for name, proxy in self.all.items()}

    @property
    def answers(self) -> int:
        """How many answers, or pieces of them, have come so far, on all ports."""
        return sum(proxy.answers for proxy in self.all.values())

    @contextlib.contextmanager
    def disturb(self, fault: NetworkFault, spared: int) -> Iterator[None]:
        """Let every answer on every port meet `fault` until the block ends, but for the first `spared` of them."""
        disturbance = Disturbance(fault, spared)
        for proxy in self.all.values():
            proxy.disturbance = disturbance
        try:
            yield
        finally:
            for proxy in self.all.values():
                proxy.disturbance = None

    async def down(self) -> None:
        """Begin an outage: every connection breaks, and new ones are refused."""
        for proxy in self.all.values():
            await proxy.refuse()

    async def up(self) -> None:
        """End the outage."""
        for proxy in self.all.values():
            await proxy.accept()


@contextlib.asynccontextmanager
async def open_network(rig: Rig) -> AsyncIterator[ProxiedNetwork]:
    """Open a proxy before every port of the rig's platform."""
    async with contextlib.AsyncExitStack() as stack:
        proxies: dict[str, Proxy] = {}
        for name, front in rig.fronts().items():
            proxy = HttpProxy(front) if isinstance(front, HttpFront) else TcpProxy(front)
            proxy.losses = tuple(loss for loss in proxy.losses if loss.status not in rig.not_accepted)
            proxies[name] = await stack.enter_async_context(proxy)
        yield ProxiedNetwork(proxies)
