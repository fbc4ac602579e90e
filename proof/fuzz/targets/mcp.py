"""MCP requests: bytes on the MCP server's stdin -> lines -> what to do about each.

Every request with an id is answered once or handed on once; what is handed on is a body that the gateway
reads as it was meant; bytes that are no JSON are told as such.
"""

from __future__ import annotations

import json
from typing import Any

from proof.fuzz.source import Source, plain
from semel.faces.http.operations.agent_tools import ToolCallBody
from semel.faces.http.routing import decode_body
from semel.tools import outcomes, protocol
from semel.tools.catalogue import TOOLS_BY_NAME, Greeting
from semel.tools.lines import LineBuffer, OverlongLine
from semel.tools.protocol import CAPABILITIES_KEY, VERSION_KEY, McpCall, McpCancel, McpReply

LIMIT = 4096
GREETINGS = [Greeting(), Greeting(False, ("ops", "ann"), "Speak."), Greeting(True, ("ops",))]
META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
TEMPLATES: list[Any] = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    {"jsonrpc": "2.0", "id": "3", "method": "server/discover", "params": {"_meta": META}},
    {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {
        "name": "send_message", "arguments": {"text": "hello", "to": "ops"}, "_meta": {"callId": "t1"}}},
    {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {
        "name": "ask", "arguments": {"question": "which?", "options": ["a", "b"]}, "_meta": META}},
    {"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {
        "name": "schedule", "arguments": {"cron": 5.0, "prompt": "x", "tz": None}}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}},
    {"jsonrpc": "2.0", "id": 7, "method": "ping"},
    [{"jsonrpc": "2.0", "id": 8, "method": "ping"}, {"jsonrpc": "2.0", "id": 9, "result": {}}],
]  # fmt: skip


def one(data: bytes) -> None:
    source = Source(data)
    greeting = source.pick(GREETINGS)
    stream = _stream(source)
    whole = LineBuffer(LIMIT).feed(stream)
    lines = LineBuffer(LIMIT)
    assert [line for cut in source.cuts(stream) for line in lines.feed(cut)] == whole, "lines depend on the pipe"
    assert all(len(line) <= LIMIT for line in whole if isinstance(line, bytes))
    for line in whole:
        _line(line, greeting)
    _hello(source)


def _stream(source: Source) -> bytes:
    if source.number(4) == 3:
        return source.rest() + b"\n"
    lines = [plain(source.mutated(source.pick(TEMPLATES)))]
    while source.left > 30 and len(lines) < 20:
        lines.append(plain(source.mutated(source.pick(TEMPLATES))))
    return b"\n".join(lines) + b"\n"


def _line(line: bytes | OverlongLine, greeting: Greeting) -> None:
    effects = protocol.receive(line, greeting)
    if isinstance(line, OverlongLine):
        assert [isinstance(one, McpReply) and "error" in one.message for one in effects] == [True], "it is refused once"
    for effect in effects:
        if isinstance(effect, McpReply):
            _replied(effect.message)
        elif isinstance(effect, McpCall):
            _handed_on(effect)
        else:
            assert isinstance(effect, McpCancel) and isinstance(effect.id, int | str)
    asked = _asked(line)
    if asked is not None:
        answered = [e.message.get("id") if isinstance(e, McpReply) else e.id for e in effects]
        assert answered == asked, f"asked {asked}, answered {answered}"


def _asked(line: bytes | OverlongLine) -> list[Any] | None:
    """The ids that want an answer; None where that is not plain."""
    try:
        value = json.loads(line.outline if isinstance(line, OverlongLine) else line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("method") != "ping" or "params" in value:
        return None
    id = value.get("id")
    plain_id = isinstance(id, int) or (isinstance(id, str) and id.isascii())
    return [id] if plain_id and not isinstance(id, bool) else None


def _replied(message: Any) -> None:
    line = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    said = json.loads(line)
    assert said["jsonrpc"] == "2.0" and ("result" in said) != ("error" in said)


def _handed_on(call: McpCall) -> None:
    tool = TOOLS_BY_NAME[call.name]
    assert set(tool.required) <= call.arguments.keys() <= tool.arguments.keys()
    body = {"conn": "c", "call": "k", "name": call.name, "arguments": call.arguments, "meta": call.meta}
    read = decode_body(json.dumps({**body, "given": call.given}, ensure_ascii=False).encode(), ToolCallBody)
    assert (read.name, read.arguments, read.given) == (call.name, call.arguments, call.given)
    _replied(protocol.answer(call, "sent", ok=True))


def _hello(source: Source) -> None:
    """What the gateway tells of itself is read, whatever it is."""
    told = source.mutated({"home": True, "names": ["ops"], "instructions": "x", "session": "s"})
    if isinstance(told, dict):
        outcomes.parse_greeting(told)


SEEDS = [
    b"\x00\x03" + b"\n".join(plain(one) for one in TEMPLATES),
    *(b"\x01\x00" + bytes([n, 2, 3, 1, 8, 5]) * 8 for n in range(len(TEMPLATES))),
    b'\x00\x03{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send_message","arguments":'
    b'{"text":"half \\ud83d of it"}}}',
    b'\x00\x03{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send_message","arguments":'
    b'{"text":"x"},"_meta":{"a":NaN,"b":[1e999]}}}',
]
