"""ACP lines: bytes of an agent's stdout -> lines -> messages -> what the gateway is told -> the fold.

Lines do not depend on how the pipe cuts the bytes; nothing an agent prints raises or is answered with what is no
message; every update reaches the gateway as it was; what is no JSON-RPC is kept as noise.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from proof.fuzz.source import Source, plain
from semel.acp_stream import ConnectionFolder
from semel.acp_stream.view import RecordedStreamReader
from semel.agents.acp.conversation import AcpConversation
from semel.agents.acp.session import Choices, InitializeResult
from semel.agents.acp.wire import GAP_MARKER, AgentReply, IncomingCall, LineSplitter, LineTooLong, Noise, parse_messages
from semel.gateway.ports import Asked, Died, Update
from semel.gateway.turns.permissions import Permissions
from semel.law import permission_questions
from semel.ledger.transcript.entries import dump

LIMIT = 4096
TEMPLATES: list[Any] = [
    {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
        "sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": {"type": "text", "text": "Hello"}}}},
    {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
        "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Run", "status": "pending", "rawInput": {"a": 1},
        "content": [{"type": "content", "content": {"type": "text", "text": "out"}}]}}},
    {"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": {"sessionId": "s", "toolCall": {
        "toolCallId": "t1", "title": "rm"}, "options": [{"optionId": "a", "name": "Allow", "kind": "allow_once"}]}},
    {"jsonrpc": "2.0", "id": "x", "method": "fs/read_text_file", "params": {"path": "/x"}},
    {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 5}},
    {"jsonrpc": "2.0", "method": "_session/retrying", "params": {"sessionId": "s", "attempt": 1}},
    {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn", "usage": {"in": 1}, "_meta": {}}},
    {"jsonrpc": "2.0", "id": "1", "error": {"code": -32603, "message": "odd", "data": {"details": "why"}}},
    {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentInfo": {"name": "codex", "version": "1"},
        "agentCapabilities": {"loadSession": True, "promptCapabilities": {"image": True}},
        "authMethods": [{"id": "k", "name": "Key"}]}},
    {"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s", "modes": {"currentModeId": "a", "availableModes": [
        {"id": "a", "name": "A"}]}, "configOptions": [{"id": "model", "category": "model", "currentValue": "b",
        "options": [{"value": "b", "name": "B"}]}]}},
    {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
        "sessionUpdate": "config_option_update", "configOptions": [{"id": "mode", "currentValue": "x"}]}}},
    {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
        "sessionUpdate": "plan", "entries": [{"content": "first", "priority": "high", "status": "pending"}]}}},
    ["a batch", {"jsonrpc": "2.0", "method": "session/cancel"}], "printed text", 7,
]  # fmt: skip
_loop = asyncio.new_event_loop()


class _Writer:
    stuck = False

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.lines.append(data)


class _Stderr:
    def tail(self, lines: int) -> str:
        return ""

    def drain(self) -> None: ...


class _Process:
    """An agent that only talks."""

    code = None
    is_ending = True

    def __init__(self) -> None:
        self.writer = _Writer()
        self.stderr = _Stderr()

    def call_on_exit(self, callback: Any) -> None: ...

    def kill(self) -> None: ...


def one(data: bytes) -> None:
    source = Source(data)
    stream = _stream(source)
    chunks = source.cuts(stream)
    whole, over = _cut([stream])
    assert _cut(chunks) == (whole, over), "lines depend on how the pipe cuts them"
    if not over and GAP_MARKER.encode() not in b"".join(whole):
        assert b"\n".join(whole) == stream, "a line lost bytes"
    for line in whole:
        _read(line)
    told = _loop.run_until_complete(_talk(chunks))
    first, again = _folded(whole), _folded(whole)
    assert first == again, "the same lines fold to two views"
    json.dumps(first).encode()
    assert told is not None


def _stream(source: Source) -> bytes:
    if source.number(4) == 3:
        return source.rest()
    lines = []
    while source.left > 40 and len(lines) < 30:
        lines.append(plain(source.mutated(source.pick(TEMPLATES))))
        if source.number(12) == 11:
            lines.append(source.take(source.number(30)))
    lines.append(plain(source.mutated(source.pick(TEMPLATES))))
    return b"\n".join(lines) + source.pick([b"\n", b"", b"\r\n", b"\n\n", b"{"])


def _cut(chunks: list[bytes]) -> tuple[list[bytes], bool]:
    lines, found = LineSplitter(LIMIT), []
    try:
        for chunk in chunks:
            for line in lines.feed(chunk):
                found.append(line)
    except LineTooLong:
        return [], True
    return [*found, lines.take_rest()], False


def _read(line: bytes) -> None:
    for message in parse_messages(line):
        assert isinstance(message, IncomingCall | AgentReply | Noise)
        if isinstance(message, IncomingCall):
            assert isinstance(message.params, dict)
        if isinstance(message, Noise):
            assert message.text or not line.strip(), "noise that is not kept"
        if isinstance(message, AgentReply):
            InitializeResult.read(message.result)
            Choices.read(message.result)


async def _talk(chunks: list[bytes]) -> list[Any]:
    """As the gateway hears it, a prompt running."""
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb", 0) as stdout:
        process = _Process()
        conversation = AcpConversation("a", process, stdout, None)  # type: ignore[arg-type]
        conversation.memory = "s"
        await conversation.prompt([{"type": "text", "text": "go"}])
        wire = conversation._wire
        wire._lines = LineSplitter(LIMIT)  # lines that are too long come within reach of the fuzzer
        for chunk in chunks:
            wire._on_chunk(chunk)
        wire._on_eof()
        os.close(writes)
        signals = [await conversation.next() for _ in range(len(conversation._signals))]
        ending = getattr(conversation, "_ending", None)
        if ending is not None:
            ending.cancel()
        wire.reader.pause()
    for written in process.writer.lines:
        said = json.loads(written)
        assert written.endswith(b"\n") and written.count(b"\n") == 1 and said["jsonrpc"] == "2.0"
    await _permitted(signals)
    for signal in signals:
        assert not isinstance(signal, Update) or isinstance(signal.data, dict)
    assert sum(isinstance(signal, Died) for signal in signals) <= 1
    return signals


async def _permitted(signals: list[Any]) -> None:
    """What is asked for is shown to people as a row, whatever it is."""
    known = {"title": "what the stream told", "input": None}
    for policy in ("ask", "allow"):
        asks = Permissions(_Deaf(), policy, 600.0, lambda op: None)  # type: ignore[arg-type]
        for signal in signals:
            if isinstance(signal, Asked):
                for op in asks.ask(signal, known):
                    dump(op.body)  # type: ignore[union-attr]
                permission_questions.format_request(
                    str(signal.tool_call.get("title")), signal.tool_call, signal.options, 1, 10.0
                )
        asks.close()
        await asyncio.gather(*asks._tasks)


class _Deaf:
    """A conversation that is told the answers."""

    async def answer(self, id: str, option: str | None) -> None: ...


def _folded(lines: list[bytes]) -> list[Any]:
    reader = RecordedStreamReader(ConnectionFolder())
    for line in lines:
        reader.read(line)
    return list(reader.build_view().json())


SEEDS = [
    b"\x03" + b"\n".join(plain(one) for one in TEMPLATES) + b"\n",
    *(b"\x00" + bytes([n, 1, 3, 9, 4, 2, 7, 5]) * 12 for n in range(len(TEMPLATES))),
    b'\x03{"jsonrpc":"2.0","id":1,"method":"x"',
    b"\x03Loading model...\n[1,2]\nnull\n\xff\xfe\n" + b"[" * 3000 + b"\n",
]
