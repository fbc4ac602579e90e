"""Exported sessions, made by hand: as `Gateway.export` writes them, without a gateway."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

from semel.gateway import Gateway
from semel.law.identity import digest_fields
from semel.ledger.admin.export import ExportWriter
from semel.text.verbatim import verbatim_digest

Json = dict[str, Any]
AT = 1_700_000_000_000


def header(key: str, entries: int, turns: int, **more: Any) -> Json:
    return {
        "line": "session", "format": "semel.session", "version": 1, "key": key, "agent": "demo", "home": f"web:{key}",
        "title": None, "chapter": 1, "since": 1, "entries": entries, "turns": turns, "at": AT, "exported": AT,
        "ledger": "0" * 16, **more,
    }  # fmt: skip


def turn(number: int, **more: Any) -> Json:
    return {
        "line": "turn", "turn": number, "root": number, "attempt": 1, "chapter": 1, "how": "start", "state": "done",
        "tools": 0, "stop": "end_turn", "error": None, "started": AT + number, "ended": AT + number, **more,
    }  # fmt: skip


def user(seq: int, text: str, of: int | None, key: str | None = None, source: str = "api:big", **more: Any) -> Json:
    event = {
        "source": source, "key": key, "kind": "message", "sender": None,
        "digest": digest_fields({"text": text, "sender": None}).hex(), "at": AT + seq, "turn": of, "payload": {},
    }  # fmt: skip
    return {
        "line": "entry",
        "seq": seq,
        "at": AT + seq,
        "role": "user",
        "chapter": 1,
        "text": text,
        "event": event,
        **more,
    }


def agent(seq: int, text: str, of: int | None, **more: Any) -> Json:
    claim = {
        "turn": of, "how": "block", "kind": "text", "late": False, "tool": None, "dest": "web:big",
        "digest": verbatim_digest(text).hex(), "reason": None, "at": AT + seq,
    }  # fmt: skip
    return {
        "line": "entry", "seq": seq, "at": AT + seq, "role": "agent", "chapter": 1, "text": text, "turn": of,
        "claim": claim, **more,
    }  # fmt: skip


def conversation(
    turns: int, say: Callable[[int], str] = lambda n: f"word{n} and the answer", key: str = "big"
) -> Iterator[Json]:
    """A question and an answer a turn."""
    yield header(key, 2 * turns, turns)
    yield from (turn(n) for n in range(1, turns + 1))
    for n in range(1, turns + 1):
        yield user(2 * n - 1, f"question {n}?", n, key=f"q{n}")
        yield agent(2 * n, say(n), n)


def written(records: Iterator[Json] | list[Json]) -> bytes:
    """The file, with its end."""
    writer = ExportWriter()
    return b"".join([*map(writer.format_line, records), writer.end()])


def file(records: Iterator[Json] | list[Json]) -> io.BytesIO:
    return io.BytesIO(written(records))


async def exported(gateway: Gateway, key: str) -> bytes:
    writer, out = ExportWriter(), list[bytes]()
    async for records in gateway.export(key):
        out += map(writer.format_line, records)
    return b"".join([*out, writer.end()])


def content(data: bytes) -> list[Json]:
    """Everything but the header: what is the same wherever the session is."""
    return [json.loads(line) for line in data.splitlines()[1:]]
