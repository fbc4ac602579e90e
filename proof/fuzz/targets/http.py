"""HTTP: any method, path, query, headers and body, through the ASGI application of a gateway with a real ledger.

No answer is a failure of ours; an error is a problem object of its own status (RFC 9457); every answer carries the
security headers, and none a header that a caller wrote; only who shows the token from elsewhere is let in.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from proof.fuzz.gate import HOOK, HOST, TOKEN, Answer, gate
from proof.fuzz.hush import faults
from proof.fuzz.source import Source, given
from semel.faces.http.operations import operations
from semel.faces.http.security import SECURITY_HEADERS as ALWAYS

_OPERATIONS = [(o.method, o.path) for o in operations() if "/stream" not in o.path]
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "QUERY", "get"]
SEGMENTS = [
    "s", "new:1", "%2e", "..", "1", "0", "9" * 30, "9" * 5000, "-1", "x" * 201, "é", "a b", "\x00", "hook", "k1",
    "s#1", "event:1", "nightly", "~",
]  # fmt: skip
QUERIES = [
    b"", b"limit=1", b"limit=0", b"limit=99999999999999999999", b"after=-1", b"html=1", b"state=held", b"q=hello",
    b"q=%22a", b"q=%ff", b"since=1", b"after=xx", b"before=5", b"order=best", b"odd=1", b"&&=", b"limit=\xd9\xa3",
    b"session=%5B", b"format=html", b"as=demo:y", b"archived=true", b"role=user",
]  # fmt: skip
BODIES: list[Any] = [
    {"text": "hello", "sender": "ann", "id": "k1"}, {"text": "/new"},
    {"kind": "build", "text": "x", "key": "k", "data": {"a": [1]}, "wakes": False}, {"mode": "queue"},
    {"mode": None}, {"model": "x"}, {"item": 1, "option": "a", "by": "ann"}, {"token": TOKEN}, {"by": "ann"},
    {"title": "t"}, {"name": "n", "cron": "30 7 * * *", "text": "go", "session": "s", "tz": "UTC"},
    {"name": "once", "at": "2030-01-01 00:00", "text": "go"},
    {"name": "e", "every": "10m", "text": "go", "replace": True},
    {"account": "t:7", "role": "member", "name": "bob"}, {"archived": True}, {"code": "ABCD-EFGH"},
]  # fmt: skip
NAMES = [
    b"host", b"origin", b"authorization", b"content-type", b"content-length", b"idempotency-key", b"cookie",
    b"sec-fetch-site", b"accept", b"x-forwarded-for", b"last-event-id", b"webhook-id", b"if-none-match", b"range",
    b"transfer-encoding", b"x" * 300,
]  # fmt: skip
VALUES = [
    HOST, b"evil.example", b"[::1]", b"http://127.0.0.1:8420", b"null", b"Bearer " + TOKEN.encode(),
    b"Bearer " + HOOK.encode(), b"Bearer", b"Basic eDp5", b"application/json", b"application/jsonl", b"text/plain",
    b"application/json; charset=utf-16", b"", b"5", b"-1", b"99999999999", b"\xff", b'"k"', b"k1", b"cross-site",
    b"same-origin", b"semel_x=1.2", b"bytes=0-1", b"bytes=9-1,5-", b"*/*", b"\xd9\xa3", b"a" * 300,
]  # fmt: skip


def one(data: bytes) -> None:
    source = Source(data)
    method, path = _target(source)
    headers = _headers(source)
    query = source.pick(QUERIES) if source.number(3) else source.take(source.number(60))
    if source.number(6) == 5:
        query = query + b"&" + source.pick(QUERIES)
    pieces = 1 + source.number(3)
    body = given(source, BODIES)
    answer = gate().ask(method, path, query=query, headers=headers, body=body, pieces=pieces)
    _fits(answer, method)
    told = dict(headers[::-1])  # of two of a name, the first counts
    let_in = _near(told.get(b"host", b"")) and b"origin" not in told
    bearer = any(name == b"authorization" and value == b"Bearer " + TOKEN.encode() for name, value in headers)
    if (
        path.startswith("/v1/")
        and not path.startswith(("/v1/hooks", "/v1/login", "/v1/logout"))
        and not (let_in or bearer)
    ):
        site = told.get(b"origin", b"").partition(b"://")[2]
        assert answer.status >= 400 or site == told.get(b"host"), f"a stranger was let in: {answer.status}"


def _near(host: bytes) -> bool:
    """Whether a request was addressed to this machine by a name that no page elsewhere can have."""
    name = host.decode("latin-1").lower()
    name = name.partition("]")[0].strip("[") if name.startswith("[") else name.partition(":")[0]
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.rstrip(".").rpartition(".")[2] == "localhost"


def _target(source: Source) -> tuple[str, str]:
    method, path = source.pick(_OPERATIONS)
    if source.number(8) == 7:
        method = source.pick(METHODS)
    while "{" in path:
        segment = source.pick(SEGMENTS) if source.number(2) else "s"
        path = path[: path.index("{")] + segment + path[path.index("}") + 1 :]
    if source.number(16) == 15:
        path = "/" + source.take(source.number(60)).decode("utf-8", "replace")
    return method, path


def _headers(source: Source) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = []
    how = source.number(4)
    if how < 3:
        headers = [(b"host", HOST), (b"content-type", b"application/json")]
    if how == 1:
        headers.append((b"authorization", b"Bearer " + TOKEN.encode()))
    if how == 2:
        headers = [
            (b"host", HOST),
            (b"content-type", b"application/jsonl"),
            (b"authorization", b"Bearer " + HOOK.encode()),
            (b"idempotency-key", b"k9"),
        ]
        headers = headers if source.number(2) else headers[:2]
    for _ in range(source.number(4)):
        value = (
            source.pick(VALUES)
            if source.number(4)
            else source.take(source.number(30)).replace(b"\r", b"").replace(b"\n", b"")
        )
        headers.append((source.pick(NAMES), value))
    return headers


def _fits(answer: Answer, method: str) -> None:
    assert answer.status < 500 or (answer.status == 503 and answer.header(b"retry-after")), (
        f"{answer.status}: {answer.body[:100]!r}; {' '.join(faults[-1:])}"
    )
    for name in ALWAYS:
        assert answer.header(name.encode()), f"no {name}"
    for name, value in answer.headers:
        assert not set(name + value) & set(b"\r\n\x00"), f"a header that breaks out: {name!r}: {value!r}"
        assert len([1 for other, _ in answer.headers if other == name]) == 1 or name == b"set-cookie"
    kind = answer.header(b"content-type")
    if answer.status >= 400 and method != "HEAD":
        told = answer.json()
        if kind == b"application/json":  # of the chat API, in the shape that OpenAI's clients read
            assert told["error"]["message"] and told["error"]["type"], f"an error as {told!r}"
            return
        assert kind == b"application/problem+json", f"an error as {kind!r}"
        assert told["status"] == answer.status and told["type"] and told["title"] and "detail" in told
    elif kind == b"application/json" and method != "HEAD":
        answer.json()
    if answer.status == 204:
        assert not answer.body


SEEDS = [
    *(bytes([n, 0, 0, 0, 0, 1, 0, 0, 0, k, 0]) for n in range(len(_OPERATIONS)) for k in (0, 4)),
    *(bytes([n, 1, 3, 1, 1, 2, 3, 1, 7, 0, 2, 4, n % 16, 2, 9, 1, 3]) for n in range(len(_OPERATIONS))),
]
