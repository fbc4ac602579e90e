"""Raw bytes on the socket of a running server: every answer is HTTP and no failure of ours, and it goes on serving.

The server runs in a thread of this process; each input is one connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from functools import cache
from typing import Any

from proof.fuzz.gate import TOKEN, gate
from proof.fuzz.source import Source
from semel.faces.http import serve

LINES = [
    b"GET /healthz HTTP/1.1", b"GET / HTTP/1.0", b"POST /v1/sessions/s/messages HTTP/1.1",
    b"POST /v1/import HTTP/1.1", b"GET /v1/sessions/s/stream HTTP/1.1", b"HEAD /v1/status HTTP/1.1",
    b"OPTIONS * HTTP/1.1", b"CONNECT x:1 HTTP/1.1", b"PRI * HTTP/2.0", b"GET http://x/ HTTP/1.1",
    b"GET /%ff%00 HTTP/1.1", b"GET /v1/why/%2e%2e/x HTTP/1.1", b"GET  / HTTP/1.1", b"\x16\x03\x01\x02\x00",
    b"GET /" + b"a" * 9000 + b" HTTP/1.1", b"GET /v1/sessions/s/outputs/" + b"9" * 5000 + b" HTTP/1.1", b"",
    b"Host: 127.0.0.1", b"Host:", b"Host: a\r\nHost: b", b"Content-Length: 5", b"Content-Length: -5",
    b"Content-Length: 5, 6", b"Content-Length: 99999999999", b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: chunked, identity", b"Content-Type: application/json", b"Content-Type: application/jsonl",
    b"Authorization: Bearer " + TOKEN.encode(), b"Authorization: Bearer \xff\xfe", b"Expect: 100-continue",
    b"Upgrade: websocket", b"Connection: upgrade", b"Connection: close", b" folded", b"X: " + b"y" * 3000,
    b"X\x00: y", b": z", b"Cookie: a=b; c", b"Range: bytes=0-", b"5", b"hello", b"0", b"ffffffffffffffff", b"-1",
    b'{"text": "hi"}', b"{", b"\xff\xfe",
]  # fmt: skip
QUIET = 0.01
"""Seconds without an answer after which we leave."""


class _Faults(logging.Handler):
    """What the server logs as a fault of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


class _Server:
    def __init__(self) -> None:
        self.gate = gate()
        logging.disable(logging.NOTSET)
        self.faults = _Faults()
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).handlers = [self.faults]
        self.count = 0
        self.gate.loop.set_exception_handler(self._raised)
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), daemon=True).start()
        assert started.wait(20)

    def _raised(self, loop: Any, context: dict[str, Any]) -> None:
        self.faults.seen.append(repr(context))

    def _run(self, started: threading.Event) -> None:
        loop = self.gate.loop
        asyncio.set_event_loop(loop)
        self.port = loop.run_until_complete(serve(self.gate.app, "127.0.0.1", 0)).port
        loop.call_soon(started.set)
        loop.run_forever()

    def say(self, data: bytes, quiet: float = QUIET) -> bytes:
        """One connection: these bytes, and what comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as link, contextlib.suppress(OSError):
            link.sendall(data)
            link.settimeout(quiet)
            out = b""
            with contextlib.suppress(TimeoutError, ConnectionError):
                while len(out) < 300_000 and (piece := link.recv(65_536)):
                    out += piece
            return out
        return b""


@cache
def _server() -> _Server:
    return _Server()


def one(data: bytes) -> None:
    source = Source(data)
    said = _bytes(source)
    server = _server()
    answer = server.say(said)
    assert not answer or answer.startswith(b"HTTP/1.1 "), f"no HTTP: {answer[:80]!r}"
    if answer and b"\r\nHTTP/1.1 5" not in answer:
        status = int(answer[9:12])
        assert 100 <= status < 500, f"{status}: {answer[-300:]!r}"
    server.count += 1
    if server.count % 50 == 1:
        alive = server.say(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 10.0)
        assert alive.startswith(b"HTTP/1.1 200"), f"it serves no more: {alive[:80]!r}"
    faults, server.faults.seen = server.faults.seen, []
    assert not faults, f"the server failed: {faults[0][-1500:]}"


def _bytes(source: Source) -> bytes:
    if source.number(4) == 3:
        return source.rest()
    out = []
    while source.left > 1 and len(out) < 60:
        out.append(source.pick(LINES))
        out.append(source.pick([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r\n\r\n", b""]))
    return b"".join(out) + b"\r\n\r\n"


SEEDS = [
    bytes([0, 0, 0, 17, 0]), bytes([0, 2, 0, 17, 0, 26, 0, 20, 4, 41, 5]),
    bytes([0, 2, 0, 17, 0, 26, 0, 24, 4, 40, 0, 41, 0, 42, 4]), bytes([0, 4, 0, 17, 0]), bytes([0, 15, 0, 17, 0]),
    b"\x03GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: y\r\n\r\n",
    *(bytes([0, n, 0, 17, 0, n + 17, 0, n + 24, 0]) for n in range(17)),
]  # fmt: skip
LONGEST = 4096
