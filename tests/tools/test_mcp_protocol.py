"""One line in, what to do about it out (semel.tools.protocol)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from semel.tools import protocol
from semel.tools.catalogue import TOOLS, Greeting
from semel.tools.lines import OverlongLine
from semel.tools.protocol import McpCall, McpCancel, McpReply, receive

Json = dict[str, Any]
ENVELOPE = {protocol.VERSION_KEY: "2026-07-28", protocol.CAPABILITIES_KEY: {}}


def line(method: str, params: Any = None, number: Any = 1) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    return json.dumps(message if params is None else {**message, "params": params}).encode()


def reply(raw: bytes | OverlongLine, greeting: Greeting | None = None) -> Json:
    (effect,) = receive(raw, greeting or Greeting())
    assert isinstance(effect, McpReply)
    return effect.message


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_known_revision_is_agreed_to(version: str) -> None:
    result = reply(line("initialize", {"protocolVersion": version, "capabilities": {}}))["result"]
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "semel"


@pytest.mark.parametrize("version", ["2026-07-28", "2031-01-01", "latest", ""])
def test_a_revision_without_a_handshake_is_answered_with_the_newest_that_has_one(version: str) -> None:
    assert reply(line("initialize", {"protocolVersion": version}))["result"]["protocolVersion"] == "2025-11-25"


def test_the_probe_that_claude_code_sends_first_is_answered_in_the_stateless_era() -> None:
    info = {"name": "claude-code", "version": "2.1.316"}
    meta = {**ENVELOPE, "io.modelcontextprotocol/clientInfo": info}
    answer = reply(line("server/discover", {"_meta": meta}, "server-discover-probe-1"), Greeting(instructions="Hi."))
    assert answer["id"] == "server-discover-probe-1"
    result = answer["result"]
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["capabilities"] == {"tools": {}}
    assert result["instructions"] == "Hi."
    assert result["resultType"] == "complete"
    assert result["ttlMs"] > 0
    assert result["cacheScope"] == "private"
    assert result["_meta"][protocol.SERVER_KEY]["name"] == "semel"


def test_each_request_is_answered_in_the_era_it_speaks() -> None:
    old = reply(line("tools/list"))["result"]
    new = reply(line("tools/list", {"_meta": ENVELOPE}))["result"]
    assert set(old) == {"tools"}
    assert set(new) == {"tools", "ttlMs", "cacheScope", "resultType", "_meta"}
    assert old["tools"] == new["tools"]
    assert reply(line("ping"))["result"] == {}


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({protocol.VERSION_KEY: "2026-07-28"}, -32602),
        ({protocol.VERSION_KEY: 5, protocol.CAPABILITIES_KEY: {}}, -32602),
        ({protocol.VERSION_KEY: "2031-01-01", protocol.CAPABILITIES_KEY: {}}, -32022),
        ({protocol.VERSION_KEY: "2025-11-25", protocol.CAPABILITIES_KEY: {}}, -32022),
    ],
)
def test_a_stateless_request_with_a_wrong_envelope_is_told_what_is_served(meta: Json, code: int) -> None:
    error = reply(line("tools/list", {"_meta": meta}))["error"]
    assert error["code"] == code
    if code == -32022:
        assert error["data"] == {"supported": ["2026-07-28"], "requested": meta[protocol.VERSION_KEY]}


@pytest.mark.parametrize("method", ["resources/list", "prompts/list", "logging/setLevel", "tools/nope", ""])
def test_a_method_that_is_not_there_is_said_to_be_missing(method: str) -> None:
    assert reply(line(method, {}))["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"not json", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":', -32700),
        (b"[" * 100_000, -32700),
        (b'{"id":' + b"9" * 5000 + b"}", -32700),
        (b'"a string"', -32600),
        (b"17", -32600),
        (b"[]", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0"}', -32600),
        (OverlongLine(b'{"jsonrpc":"2.0","id":'), -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":3}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":[]}}', -32602),
    ],
)
def test_what_is_no_request_is_an_error_and_nothing_worse(raw: bytes | OverlongLine, code: int) -> None:
    assert reply(raw)["error"]["code"] == code


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"  \r",
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}',
        b'{"jsonrpc":"2.0","method":"notifications/whatever","params":[]}',
        b'{"jsonrpc":"2.0","id":4,"result":{}}',
        b'{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"no"}}',
    ],
)
def test_what_asks_for_nothing_gets_nothing(raw: bytes) -> None:
    assert receive(raw, Greeting()) == []


def test_a_tool_call_without_an_id_could_not_be_answered_and_is_not_made() -> None:
    raw = b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"send_message","arguments":{"text":"x"}}}'
    assert receive(raw, Greeting()) == []


def test_a_batch_is_taken_message_by_message() -> None:
    params = {"name": "send_message", "arguments": {"text": "x"}}
    batch = b"[" + line("tools/call", params, 1) + b"," + line("ping", None, "two") + b",5]"
    call, pong, wrong = receive(batch, Greeting())
    assert isinstance(call, McpCall)
    assert pong == McpReply({"jsonrpc": "2.0", "id": "two", "result": {}})
    assert isinstance(wrong, McpReply)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "[-1e999]"])
def test_a_number_that_json_cannot_express_spoils_neither_call_nor_answer(number: str) -> None:
    """Python's clients write NaN; the gateway's parser refuses it, and the call must reach the gateway."""
    raw = line("tools/call", {"name": "send_message", "arguments": {"text": "hi"}, "_meta": {"x": 7}})
    (call,) = receive(raw.replace(b"7", number.encode()), Greeting())
    assert isinstance(call, McpCall) and call.arguments == {"text": "hi"}
    json.dumps(call.meta, allow_nan=False)
    raw = line("tools/call", {"name": "send_message", "arguments": {"text": 7}})
    refused = reply(raw.replace(b"7", number.encode()))
    assert refused["id"] == 1 and refused["result"]["isError"]


def test_an_unknown_tool_is_answered_with_the_names_of_those_there_are() -> None:
    error = reply(line("tools/call", {"name": "collaboration.send_message", "arguments": {}}))["error"]
    assert error["code"] == -32602
    assert all(tool.name in error["message"] for tool in TOOLS)


def test_a_call_carries_its_meta_as_it_came() -> None:
    meta = {"callId": "call_1", "x-codex-turn-metadata": {"turn_id": "t"}, "progressToken": 1}
    params = {"name": "send_message", "arguments": {"text": "x"}, "_meta": meta}
    assert receive(line("tools/call", params), Greeting()) == [
        McpCall(1, "send_message", {"text": "x"}, {"text": "x"}, meta, False)
    ]
    for odd in (None, 5, []):
        (call,) = receive(line("tools/call", {**params, "_meta": odd}), Greeting())
        assert isinstance(call, McpCall)
        assert call.meta == {}


def test_a_cancellation_names_the_request_by_the_id_it_had() -> None:
    for number in (1, "1"):
        params = {"requestId": number}
        raw = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode()
        assert receive(raw, Greeting()) == [McpCancel(number)]
