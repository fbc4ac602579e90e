"""RPC lines on the gateway's unix socket: any bytes get one answer a line, and an id that can be read comes back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from proof.fuzz.source import Source, plain
from semel.gateway.tools.rpc import RpcError, RpcServer
from semel.tools.rpc_client import GatewayLink

TEMPLATES: list[Any] = [
    {"id": 1, "method": "hello", "params": {"token": "t"}},
    {"id": "a", "method": "call", "params": {"token": "t", "conn": "c", "call": "k", "name": "send_message",
        "arguments": {"text": "hi"}, "meta": {"callId": "x"}}},
    {"id": 2, "method": "answered", "params": {"token": "t", "call": "k"}},
]  # fmt: skip
LIMIT = 8192
_loop = asyncio.new_event_loop()


async def _echo(method: str, params: Any) -> Any:
    """Says what it was asked. A handler's no is a no of its own."""
    if method == "hello":
        raise RpcError("stranger", "this token belongs to no agent")
    return {"method": method, "params": params}


class _Sink:
    """Where the server writes."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.lines.append(data)

    def write_eof(self) -> None: ...

    async def drain(self) -> None: ...


def one(data: bytes) -> None:
    source = Source(data)
    stream = _stream(source)
    answers = _loop.run_until_complete(_served(source.cuts(stream)))
    asked = stream.split(b"\n")[:-1]
    for line in answers:
        _answer(line)
    if max(map(len, asked), default=0) < LIMIT and len(stream) < LIMIT:  # else one answer says so, and that is the end
        assert len(answers) == len(asked), f"{len(asked)} lines, {len(answers)} answers"
        told = [json.loads(line).get("id") for line in answers]
        ids = [id for line in asked if (id := _id(line)) is not None]
        assert all(id in told for id in ids), "an id was not answered"
    _client(source, answers)


def _stream(source: Source) -> bytes:
    if source.number(4) == 3:
        return source.rest()
    lines = [plain(source.mutated(source.pick(TEMPLATES)))]
    while source.left > 20 and len(lines) < 20:
        lines.append(plain(source.mutated(source.pick(TEMPLATES))))
    return b"\n".join(lines) + b"\n"


async def _served(chunks: list[bytes]) -> list[bytes]:
    server = RpcServer(Path("/nowhere"), _echo, limit=LIMIT)
    reader = asyncio.StreamReader(limit=LIMIT)
    for chunk in chunks:
        reader.feed_data(chunk)
    reader.feed_eof()
    sink: Any = _Sink()
    await server._read(reader, sink)
    await asyncio.gather(*server._requests)
    return list(sink.lines)


def _answer(line: bytes) -> None:
    said = json.loads(line)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert said.keys() in ({"id", "result"}, {"id", "error"})
    assert said.get("error", {}).get("code") != "internal", "the gateway failed over a line"


def _id(line: bytes) -> int | str | None:
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    id = value.get("id") if isinstance(value, dict) else None
    return id if isinstance(id, int | str) and not isinstance(id, bool) else None


def _client(source: Source, answers: list[bytes]) -> None:
    """The other end reads answers, and what else may come there."""
    link = GatewayLink("/nowhere")
    for line in [*answers[:3], source.take(200)]:
        link._answered(line)


SEEDS = [
    b"\x03" + b"\n".join(plain(one) for one in TEMPLATES) + b"\n",
    *(b"\x00" + bytes([n, 1, 4, 2, 9]) * 8 for n in range(len(TEMPLATES))),
    b'\x03{"id": 1, "method": "x"}\nno JSON\n{"id": "\\ud800", "method": "y"}\nhalf',
]
