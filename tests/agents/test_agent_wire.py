"""The wire: lines and messages, whatever an agent writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.agents.acp.wire import Call, Lines, LineTooLong, Noise, Reply, decode, messages


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b" ")), max_size=8), st.data())
def test_lines_are_the_same_however_the_pipe_cuts_them(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reader, got = Lines(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += reader.feed(stream[start:end])
    assert got == lines
    assert reader.rest() == b"rest"


@pytest.mark.parametrize("chunks", [[b"x" * 11], [b"x" * 6, b"x" * 6], [b"x" * 11 + b"\n"], [b"ok\n" + b"y" * 11]])
def test_a_line_above_the_bound_is_refused_before_it_is_whole(chunks: list[bytes]) -> None:
    reader = Lines(limit=10)
    with pytest.raises(LineTooLong):
        for chunk in chunks:
            list(reader.feed(chunk))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_every_json_value_becomes_messages_and_never_an_exception(value: Any) -> None:
    line = json.dumps(value).encode()
    found = list(messages(line))
    assert all(isinstance(one, Call | Reply | Noise) for one in found)
    assert len(found) == (len(value) if isinstance(value, list) else 1)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(line: bytes) -> None:
    assert all(isinstance(one, Call | Reply | Noise) for one in messages(line))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"jsonrpc":"2.0","id":"u-1","method":"m","params":{"a":1}}', Call("m", {"a": 1}, "u-1", asks=True)),
        ('{"id":0,"method":"m"}', Call("m", {}, 0, asks=True)),
        ('{"method":"m","params":[1]}', Call("m", {})),
        ('{"id":7,"result":null}', Reply(7)),
        ('{"id":7,"error":{"code":-1,"message":"x"}}', Reply(7, None, {"code": -1, "message": "x"})),
        ('{"id":7,"error":"plain"}', Reply(7, None, {"message": "plain"})),
        ("42", Noise("42")),
        ("hello", Noise("hello")),
        ('{"id":7}', Noise('{"id": 7}')),
        ('{"id":[1],"result":1}', Noise('{"id": [1], "result": 1}')),
    ],
)
def test_a_message_is_read_for_what_it_is(line: str, message: object) -> None:
    assert list(messages(line.encode())) == [message]


def test_text_that_cannot_be_stored_is_made_storable() -> None:
    assert decode(b'{"t": "a\xff"}') == {"t": "a\ufffd"}
    assert decode(b'["\\ud83d", "\\ud83d\\ude00"]') == ["\ufffd", "😀"]
    assert decode(b"[NaN]") == [None]


def test_nesting_without_end_is_noise() -> None:
    (one,) = messages(b"[" * 200_000)
    assert isinstance(one, Noise)
