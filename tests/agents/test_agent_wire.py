"""The wire: lines and messages, whatever an agent writes."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.agents.acp.wire import (
    GAP_MARKER,
    MAX_LINE_BYTES,
    AgentReply,
    IncomingCall,
    LineSplitter,
    LineTooLong,
    Noise,
    decode_line,
    fill_gap,
    parse_messages,
)
from semel.gateway.files import MAX_FILE_BYTES

Json = dict[str, Any]


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b" ")), max_size=8), st.data())
def test_lines_are_the_same_however_the_pipe_cuts_them(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reader, got = LineSplitter(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += reader.feed(stream[start:end])
    assert got == lines
    assert reader.take_rest() == b"rest"


@pytest.mark.parametrize("chunks", [[b"x" * 41], [b"x" * 21, b"x" * 21], [b"x" * 41 + b"\n"], [b"ok\n" + b"y" * 41]])
def test_a_line_above_the_bound_is_refused_before_it_is_whole(chunks: list[bytes]) -> None:
    reader = LineSplitter(limit=10)
    with pytest.raises(LineTooLong):
        for chunk in chunks:
            list(reader.feed(chunk))


def tool(**fields: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "t", **fields}


def chunk(**content: Any) -> Json:
    return {"sessionUpdate": "agent_message_chunk", "content": content}


def cut(update: Json, size: int, method: str = "session/update", **more: Any) -> tuple[IncomingCall, int]:
    """A message whose only "BIG" is so many bytes long, as the wire reads it."""
    line = json.dumps({"method": method, "params": {"update": update}, **more}).encode()
    reader = LineSplitter(limit=1000)
    [read] = reader.feed(line.replace(b"BIG", b"x" * size) + b"\n")
    assert list(reader.feed(b"behind it\n")) == [b"behind it"]
    [message] = parse_messages(read)
    return message, reader.missing_bytes  # type: ignore[return-value]


@pytest.mark.parametrize("keys_sorted", [False, True])
@pytest.mark.parametrize(
    "update",
    [
        chunk(type="image", mimeType="image/png", data="BIG"),
        chunk(type="resource", resource={"uri": "file:///a", "blob": "BIG"}),
        chunk(type="resource", resource={"text": "BIG", "uri": "file:///a"}),
        tool(rawOutput=["a", "BIG", "b"]),
        tool(content=[{"type": "content", "content": {"type": "text", "text": "BIG"}}]),
    ],
)
def test_of_a_line_above_the_bound_what_is_no_text_of_the_agent_is_left_out(update: Json, keys_sorted: bool) -> None:
    update = json.loads(json.dumps(update, sort_keys=keys_sorted))
    message, _ = cut(update, 2000)
    assert fill_gap(message, 1500)
    told = json.dumps(message.params)
    assert GAP_MARKER not in told and "1,500 bytes were left out here" in told and len(told) < 1000


@pytest.mark.parametrize(
    ("update", "more"),
    [
        (chunk(type="text", text="BIG"), {}),
        (chunk(type="text", text="\\" * 600 + "BIG"), {}),
        (tool(title="BIG"), {}),
        (tool(rawOutput="BIG"), {"method": "session/request_permission", "id": 1}),
        (tool(rawOutput="BIG"), {"id": 1}),
    ],
)
def test_nothing_is_guessed_of_any_other_line_above_the_bound(update: Json, more: Json) -> None:
    message, _ = cut(update, 2000, **more)
    assert not fill_gap(message, 1500)


@given(st.text(min_size=1, max_size=20).filter(lambda text: not text.endswith("\\")), st.integers(0, 12))
def test_a_line_is_cut_between_its_characters(text: str, shift: int) -> None:
    data = "x" * shift + text * (1200 // (len(json.dumps(text)) - 2) + 1)
    line = json.dumps({"method": "session/update", "params": {"update": chunk(type="image", data=data)}}).encode()
    [read] = LineSplitter(limit=700).feed(line + b"\n")
    [message] = parse_messages(read)
    assert isinstance(message, IncomingCall) and fill_gap(message, 1)


def test_the_largest_file_fits_into_a_line() -> None:
    assert len(base64.b64encode(bytes(MAX_FILE_BYTES))) + 100_000 < MAX_LINE_BYTES


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_every_json_value_becomes_messages_and_never_an_exception(value: Any) -> None:
    line = json.dumps(value).encode()
    found = list(parse_messages(line))
    assert all(isinstance(one, IncomingCall | AgentReply | Noise) for one in found)
    assert len(found) == (len(value) if isinstance(value, list) else 1)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(line: bytes) -> None:
    assert all(isinstance(one, IncomingCall | AgentReply | Noise) for one in parse_messages(line))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"jsonrpc":"2.0","id":"u-1","method":"m","params":{"a":1}}',
            IncomingCall("m", {"a": 1}, "u-1", is_request=True),
        ),
        ('{"id":0,"method":"m"}', IncomingCall("m", {}, 0, is_request=True)),
        ('{"method":"m","params":[1]}', IncomingCall("m", {})),
        ('{"id":7,"result":null}', AgentReply(7)),
        ('{"id":7,"error":{"code":-1,"message":"x"}}', AgentReply(7, None, {"code": -1, "message": "x"})),
        ('{"id":7,"error":"plain"}', AgentReply(7, None, {"message": "plain"})),
        ("42", Noise("42")),
        ("hello", Noise("hello")),
        ('{"id":7}', Noise('{"id": 7}')),
        ('{"id":[1],"result":1}', Noise('{"id": [1], "result": 1}')),
    ],
)
def test_a_message_is_read_for_what_it_is(line: str, message: object) -> None:
    assert list(parse_messages(line.encode())) == [message]


def test_text_that_cannot_be_stored_is_made_storable() -> None:
    assert decode_line(b'{"t": "a\xff"}') == {"t": "a\ufffd"}
    assert decode_line(b'["\\ud83d", "\\ud83d\\ude00"]') == ["\ufffd", "😀"]
    assert decode_line(b"[NaN]") == [None]


def test_nesting_without_end_is_noise() -> None:
    (one,) = parse_messages(b"[" * 200_000)
    assert isinstance(one, Noise)
