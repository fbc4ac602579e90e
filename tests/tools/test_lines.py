"""Lines of any length: those that are too long to keep are known by their outline."""

from __future__ import annotations

import json
from typing import Any

import pytest

from semel.tools.lines import MAX_OUTLINE_BYTES, LineBuffer, OverlongLine


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"arguments": {"text": "x" * 300}}},
        {"method": "tools/call", "params": {"a": [{"id": 4}, "]}", '\\"{', "x" * 300]}, "id": "three"},
        {"id": 3, "method": 'a}]{["b\\', "params": [[[]], {}, {"x": {"y": "\\" * 300}}], "last": None},
    ],
)
@pytest.mark.parametrize("piece", [1, 2, 7, 10_000])
def test_the_outline_of_a_line_is_its_outermost_object_however_it_is_cut(message: dict[str, Any], piece: int) -> None:
    lines, data = LineBuffer(limit=100), json.dumps(message).encode() + b"\n"
    found = [each for at in range(0, len(data), piece) for each in lines.feed(data[at : at + piece])]
    assert len(found) == 1 and isinstance(found[0], OverlongLine)
    nested = {key: 0 if isinstance(value, dict | list) else value for key, value in message.items()}
    assert json.loads(found[0].outline) == nested
    assert lines.feed(b'{"id": 1}\n') == [b'{"id": 1}']


def test_an_outline_takes_no_more_room_than_it_needs() -> None:
    lines = LineBuffer(limit=10)
    found = lines.feed(b'{"id": 1, "x": "' + b"x" * 100_000 + b'"}\n' + b"[" * 50_000 + b"\n" + b"]" * 50_000 + b"\n")
    assert all(isinstance(each, OverlongLine) and len(each.outline) <= MAX_OUTLINE_BYTES for each in found)
    assert len(found) == 3
