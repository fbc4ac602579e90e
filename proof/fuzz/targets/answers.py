"""What platforms answer to what we send: a body and headers become done, not now, a no, or unknown. Nothing else.

A wait that they ask for is a number of seconds that can be waited.
"""

from __future__ import annotations

import math
from typing import Any

from proof.fuzz.source import Source, given
from semel.channels.http import HttpAnswer
from semel.channels.matrix.transport import MatrixReply, Refusal, check_write, classify_read_error, parse_json
from semel.channels.telegram.receipts import CaptionNeeded, DocumentNeeded, GroupMigrated, PlainNeeded, receipt_of
from semel.channels.telegram.transport import parse_reply
from semel.channels.webhook import read_outcome
from semel.gateway.ports import NotSent, Offline, Op, Receipt, Rejected, Unknown

STATUSES = [200, 200, 201, 204, 301, 400, 400, 401, 403, 404, 408, 409, 413, 425, 429, 429, 500, 502, 503, 599]
BODIES: list[Any] = [
    {"ok": True, "result": {"message_id": 7, "chat": {"id": -100}}},
    {"ok": False, "error_code": 429, "description": "Too Many Requests", "parameters": {"retry_after": 5}},
    {"ok": False, "error_code": 400, "description": "Bad Request: group chat was upgraded",
     "parameters": {"migrate_to_chat_id": -100123}},
    {"ok": False, "description": "Bad Request: can't parse entities"},
    {"ok": False, "description": "there is no text in the message to edit"},
    {"event_id": "$abc"},
    {"errcode": "M_LIMIT_EXCEEDED", "error": "Too many", "retry_after_ms": 1500},
    {"errcode": "M_FORBIDDEN", "error": "no"},
    {"id": "m1"}, {"id": 5},
]  # fmt: skip
KINDS: list[Any] = ["post", "edit", "react", "file", "delete"]
WAITS = [
    "", "5", "0", "-1", "1e9", "9" * 30, "Sun, 22 Nov 2026 10:00:00 GMT", "Mon, 1 Jan 0001 00:00:00 -2359", "٣",
    "soon",
]  # fmt: skip


def one(data: bytes) -> None:
    source = Source(data)
    status, kind = source.pick(STATUSES), source.pick(KINDS)
    headers = {"retry-after": source.pick(WAITS)} if source.number(2) else {}
    if source.number(4) == 3:
        headers = {"retry-after": source.take(30).decode("latin-1")}
    body = given(source, BODIES)
    op = Op("k1", kind, "-100", "hello", target="-100/7")
    _settled(
        lambda: receipt_of(op, parse_reply(status, body)), (PlainNeeded, DocumentNeeded, GroupMigrated, CaptionNeeded)
    )
    _settled(lambda: read_outcome(HttpAnswer(status, headers, body), op.key, 1_790_000_000.0))
    reply = MatrixReply(status, headers, parse_json(body))
    _settled(lambda: Receipt(str(check_write(reply, "event_id")["event_id"])))
    told = classify_read_error(reply)
    assert isinstance(told, Offline | Refusal) and str(told) is not None
    _wait(told.retry_after)


def _settled(send: Any, also: tuple[type[Exception], ...] = ()) -> None:
    """Exactly the outcomes that the port knows (`semel.gateway.ports.Channel.send`)."""
    try:
        receipt = send()
    except NotSent as no:
        _wait(no.retry_after)
        return
    except (Rejected, Unknown, *also) as no:
        assert str(no) or isinstance(no, also)
        return
    assert isinstance(receipt, Receipt) and isinstance(receipt.id, str) and receipt.id


def _wait(seconds: float | None) -> None:
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0), f"a wait of {seconds} s"


SEEDS = [bytes([n, n % 5, n % 2, n, 0, n]) + bytes([n % 10, 0]) for n in range(20)] + [
    b"\x0e\x00\x00\x00\x04" + b'{"ok": false, "description": "x", "parameters": {"retry_after": 1e999}}',
    b"\x00\x00\x00\x00\x04" + b'{"ok": true, "result": {"chat": {"id": 1e999}, "message_id": 2}}',
]
