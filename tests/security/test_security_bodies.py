"""Bodies that lie about themselves, against a running gateway."""

from __future__ import annotations

import gzip
import re
import tomllib
from pathlib import Path

import httpx2
from security_house import connect, rest, status
from system_house import House

SESSION = "demo:web:bodies"
SAY = f"/v1/sessions/{SESSION}/messages"


def send(house: House, head: str, body: bytes) -> bytes:
    with connect(house.url) as sock:
        sock.sendall(f"{head}\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n".encode() + body)
        return rest(sock)


def test_a_request_with_two_lengths_is_refused_whatever_it_asks(house: House) -> None:
    """A proxy may go by one and we by the other: what comes behind would be a request that it never saw."""
    hidden = b"0\r\n\r\nGET /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    both = b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n" % len(hidden)
    for head in (f"POST {SAY} HTTP/1.1", "GET /v1/sessions HTTP/1.1", "POST /v1/hooks/door HTTP/1.1", "GET / HTTP/1.1"):
        got = send(house, head, both + hidden)
        assert status(got) == 400 and got.count(b"HTTP/1.1 ") == 1, head
    got = send(house, f"POST {SAY} HTTP/1.1", b"Content-Length: 5\r\nContent-Length: 16\r\n\r\n" + b'{"text": "twice"}')
    assert status(got) == 400
    assert house.session(SESSION) is None


def test_a_length_that_is_said_twice_is_one_if_it_is_the_same(house: House) -> None:
    """RFC 9112, 6.3: whoever goes by whichever of them reads the same request, and none behind it."""
    body, key = b'{"text": "twice"}', SESSION.replace("bodies", "lengths")
    for lengths in (b"Content-Length: %d\r\nContent-Length: %d" % (len(body), len(body)), b"Content-Length: 17, 17"):
        got = send(
            house, f"POST /v1/sessions/{key}/messages HTTP/1.1", lengths + b"\r\nConnection: close\r\n\r\n" + body
        )
        assert status(got) == 202 and got.count(b"HTTP/1.1 ") == 1
    got = send(house, f"POST /v1/sessions/{key}/messages HTTP/1.1", b"Content-Length: 17, 5\r\n\r\n" + body)
    assert status(got) == 400
    house.idle(key)
    assert house.texts(key, "user") == ["twice", "twice"]


def test_a_packed_body_is_not_unpacked(house: House) -> None:
    """What is packed would count only once it is unpacked: nothing here unpacks."""
    packed = gzip.compress(b'{"text": "' + b"a" * 50_000_000 + b'"}')
    assert len(packed) < 100_000
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    got = httpx2.post(house.url + SAY, content=packed, headers=headers, timeout=60)
    assert (got.status_code, got.json()["type"]) == (400, "urn:semel:problem:bad-json")
    assert house.session(SESSION) is None


def test_a_length_that_lies_takes_no_more_than_the_limit(house: House) -> None:
    head = f"POST {SAY} HTTP/1.1"
    assert status(send(house, head, b"Content-Length: 18446744073709551615\r\n\r\n")) == 413
    endless = b"Transfer-Encoding: chunked\r\n\r\n" + (b"fff0\r\n" + b"a" * 0xFFF0 + b"\r\n") * 20
    events = f"POST /v1/sessions/{SESSION}/events HTTP/1.1"  # a message may have 32 MiB, an event 1
    assert status(send(house, events, endless)) == 413
    assert status(send(house, head, b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\n")) == 400
    assert house.session(SESSION) is None
    assert house.get("/healthz") == {"ok": True}


def test_every_library_has_a_lower_bound() -> None:
    """An older one may have a hole that is known."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    assert asked and [one for one in asked if not re.search(r">=\d", one)] == []
