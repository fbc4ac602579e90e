"""Streams: any Last-Event-ID and `after` gets what changed since, or a snapshot with its rev; or a 400.

Frames are whole, their ids are revs that never go back and are those of their data, and what is told lies after what
was asked for.
"""

from __future__ import annotations

import json
from typing import Any

from proof.fuzz.gate import HOST, Answer, gate
from proof.fuzz.source import Source
from proof.fuzz.targets.http import _fits

IDS = [
    b"", b"0", b"1", b"2", b"3", b"4", b"7", b"12", b"999999", b"9223372036854775807", b"9223372036854775808",
    b"9" * 19, b"9" * 5000, b"-1", b" 3 ", b"+3", b"3.0", b"\xd9\xa3", b"\xb2", b"3\x00", b"x", b"\xff", b"1_0",
    b"0x1", b"03",
]  # fmt: skip
TEXTS = [
    "plain", "line\nline", "\r\n\r\nevent: snapshot\ndata: {}\n\n", "\u2028\u2029\x85", "id: 9\n\n", "\ud800", "é😀",
    "\x00", ":",
]  # fmt: skip


def one(data: bytes) -> None:
    source = Source(data)
    said = source.pick([*TEXTS, None, None, None])
    if said is not None:
        told = {"text": said, "id": source.pick(["a", "b", None])}
        gate().ask("POST", "/v1/sessions/s/messages", headers=_JSON, body=json.dumps(told).encode())
    last, after = _id(source), _id(source)
    headers = [(b"host", HOST)] + ([(b"last-event-id", last)] if last is not None else [])
    query = (
        b"after=" + after.replace(b"+", b"%2B").replace(b"\xff", b"%ff") if after is not None else b""
    ) + source.pick([b"", b"", b"&html=1"])
    asked = last.decode("latin-1").strip() if last is not None else ""
    new = not asked and after is None  # who has nothing is told something, however long it takes
    answer = gate().ask("GET", "/v1/sessions/s/stream", query=query, headers=headers, first=b"data:" if new else b"")
    if answer.status != 200:
        _fits(answer, "GET")
        assert answer.status == 400, answer.status
        return
    known = int(asked) if asked else None if after is None else int(after)
    _frames(answer, known)


_JSON = [(b"host", HOST), (b"content-type", b"application/json")]


def _id(source: Source) -> bytes | None:
    how = source.number(4)
    if how == 0:
        return None
    return bytes(source.pick(IDS)) if how < 3 else source.take(source.number(12)).translate(None, b"\r\n&#;")


def _frames(answer: Answer, after: int | None) -> None:
    *frames, rest = answer.body.decode("utf-8").split("\n\n")
    assert rest == "", "half a frame"
    rev, known = -1, after
    for frame in frames:
        lines = frame.split("\n")
        if lines[0].startswith(("retry:", ":")):
            continue
        fields = dict(line.split(": ", 1) for line in lines)
        assert list(fields) == ["id", "event", "data"], f"a frame that breaks out: {lines[:4]}"
        told: Any = json.loads(fields["data"])
        assert int(fields["id"]) == told["rev"] > rev and fields["event"] == told["type"]
        rev = told["rev"]
        if told["type"] == "change":
            assert known is not None and all(change["rev"] > known for change in told["changes"]), "told again"
        else:
            assert told["type"] == "snapshot" and told["rev"] >= 4
        known = rev
    assert rev > 0 or (after is not None and after >= 0), "nothing is told to one who has nothing"


SEEDS = [
    *(bytes([n % 12, 0, 1 + n % 2, n, 0, 0]) for n in range(len(IDS))),
    *(bytes([n % 12, 1, 0, 1, n, 2]) for n in range(len(IDS))), *(bytes([n, 2, 1, 2, 1, 3, 1]) for n in range(12)),
    b"\x00\x00\x03\x0b12345678901\x03\x05-0001",
]  # fmt: skip
LONGEST = 256
