"""What agents' MCP processes ask the gateway for: any body gets one answer, and the link reads it, whatever its pieces.

The application is asked as on its unix socket; the tools behind it say what they were asked.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from proof.fuzz.source import Source, plain
from semel.faces.http import Settings, make_app
from semel.faces.http.security import CAME_BY_UNIX_SOCKET
from semel.gateway.errors import UnknownSpawn
from semel.tools.gateway_link import GatewayRefused, _BrokenConnection, _Connection

TEMPLATES: list[Any] = [
    {"conn": "c", "call": "k", "name": "send_message", "arguments": {"text": "hi"}, "meta": {"callId": "x"}},
    {"conn": "c", "call": "k", "name": "ask", "arguments": {"options": ["a"]}, "given": {"x": None}},
    {"call": "k"},
]
OPERATIONS = ["call", "answered", "hello", "call"]
_loop = asyncio.new_event_loop()


async def _echo(method: str, params: Any) -> Any:
    if method == "hello":
        raise UnknownSpawn
    return {"method": method, "params": params}


_gateway: Any = SimpleNamespace(tools=_echo)
_app = make_app(_gateway, Settings())


def one(data: bytes) -> None:
    source = Source(data)
    operation = source.pick(OPERATIONS)
    body = source.rest() if source.number(4) == 3 else plain(source.mutated(source.pick(TEMPLATES)))
    status, answer = _loop.run_until_complete(_asked(operation, body))
    said = json.loads(answer)
    assert status < 500, f"the gateway failed over a body: {said}"
    if status == 200:
        asked = json.loads(body)
        assert all(said["params"][name] == asked[name] for name in ("call", "name", "arguments") if name in asked)
    else:
        assert said["type"].startswith("urn:semel:problem:") and said["detail"]
    head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(answer)}\r\n\r\n".encode()
    outcome = _read(source.cuts(head + answer))
    assert str(outcome) == said["detail"] if isinstance(outcome, GatewayRefused) else outcome == said
    _read(source.cuts(source.mutated({"raw": source.take(200).decode("latin-1")}).__repr__().encode()))


async def _asked(operation: str, body: bytes) -> tuple[int, bytes]:
    said: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    scope: Any = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": f"/v1/tools/{operation}", "raw_path": b"", "query_string": b"", "root_path": "",
        "headers": [(b"authorization", b"Bearer t"), (b"content-type", b"application/json")], "client": None,
        "server": None, "state": {CAME_BY_UNIX_SOCKET: True},
    }  # fmt: skip
    await _app(scope, receive, send)
    return said[0]["status"], b"".join(message.get("body", b"") for message in said[1:])


def _read(pieces: list[bytes]) -> Any:
    """What the link makes of an answer that comes in these pieces."""
    connection = _Connection.__new__(_Connection)
    connection._received = bytearray()
    for piece in pieces:
        connection._received += piece
        try:
            if (outcome := connection._take_answer()) is not None:
                return outcome
        except _BrokenConnection:
            return None
    return None


SEEDS = [
    *(bytes([n, 0, n, 1, 4, 2, 9]) * 8 for n in range(len(TEMPLATES))),
    *(b"\x00\x03" + plain(template) for template in TEMPLATES),
    b'\x00\x03{"conn": "c", "call": "k", "name": "x", "arguments": {"t": "\\ud800"}}',
    b"\x00\x03no JSON",
]
