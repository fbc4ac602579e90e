"""The link that repeats requests (semel.tools.gateway_link), against another end that misbehaves on purpose."""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semel.tools.gateway_link import (
    MAX_BODY_BYTES,
    MAX_RECONNECT_DELAY_S,
    MIN_RECONNECT_DELAY_S,
    GatewayLink,
    GatewayRefused,
    NoGatewayAnswer,
    Outcome,
)

Json = dict[str, Any]


class Clock:
    """Time stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Far:
    """The other end, played by hand: one listener, and the connections in the order they were made."""

    def __init__(self, path: Path):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.fspath(path))
        self.listener.listen()
        self.listener.settimeout(5)
        self.peers: list[socket.socket] = []

    def accept(self) -> socket.socket:
        peer, _ = self.listener.accept()
        peer.settimeout(5)
        self.peers.append(peer)
        return peer

    def request(self, peer: socket.socket | None = None) -> tuple[bytes, Json]:
        """(head, body) of the one request that a connection has."""
        peer = peer or self.peers[-1]
        data = b""
        while b"\r\n\r\n" not in data:
            data += peer.recv(1 << 16)
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.partition(b"Content-Length: ")[2])
        while len(body) < length:
            body += peer.recv(1 << 16)
        assert len(body) == length
        return head, json.loads(body)

    def say(self, raw: bytes | Json, peer: socket.socket | None = None, status: str = "200 OK") -> None:
        if not isinstance(raw, bytes):
            body = json.dumps(raw).encode()
            raw = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)
        (peer or self.peers[-1]).sendall(raw)

    def close(self) -> None:
        self.listener.close()
        for peer in self.peers:
            peer.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    far = Far(tmp_path / "s")
    yield far
    far.close()


@pytest.fixture
def link(far: Far, clock: Clock) -> Iterator[GatewayLink]:
    link = GatewayLink(os.fspath(far.path), "secret", clock)
    yield link
    link.close()


def let(link: GatewayLink) -> None:
    """What the owner's loop does when a socket can be read."""
    poll = select.poll()
    link.register(poll)
    ready = {descriptor for descriptor, events in poll.poll(5000) if events & select.POLLIN}
    assert ready
    link.handle_ready(ready)


def problem(code: str, detail: str) -> Json:
    return {"type": f"urn:semel:problem:{code}", "detail": detail}


def test_a_request_shows_the_token_and_a_second_one_uses_the_connection_again(far: Far, link: GatewayLink) -> None:
    got: list[Outcome] = []
    for n in range(2):
        link.send_request("call", {"call": n}, 60, got.append)
        if n == 0:
            far.accept()
        head, body = far.request()
        assert head.startswith(b"POST /v1/tools/call HTTP/1.1\r\n")
        assert b"\r\nAuthorization: Bearer secret\r\n" in head
        assert body == {"call": n}
        far.say({"ok": n})
        let(link)
    assert got == [{"ok": 0}, {"ok": 1}]
    assert repr(link) == "<GatewayLink open=0 connections=1>"


def test_an_answer_in_pieces_is_one_answer(far: Far, link: GatewayLink) -> None:
    got: list[Outcome] = []
    link.send_request("call", {}, 60, got.append)
    far.accept()
    for piece in (b"HTTP/1.1 200 OK\r\ncontent-le", b'ngth: 12\r\nx: y\r\n\r\n{"ok":', b" true"):
        far.say(piece)
        let(link)
        assert not got
    far.say(b"}")
    let(link)
    assert got == [{"ok": True}]


NO_ANSWERS = [
    b"nonsense\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{]",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 21\r\n\r\nInternal Server Error",
    b'HTTP/1.1 404 Not Found\r\nContent-Length: 22\r\n\r\n{"type":"about:blank"}',
    b"HTTP/1.1 x OK\r\nContent-Length: 2\r\n\r\n{}",
    b"",
]


@pytest.mark.parametrize("raw", NO_ANSWERS)
def test_what_is_no_answer_of_a_gateway_ends_the_connection_and_not_the_request(
    far: Far, link: GatewayLink, clock: Clock, raw: bytes
) -> None:
    """A gateway that stops closes the connection, or its HTTP server says that it failed: the call is asked again."""
    got: list[Outcome] = []
    link.send_request("call", {"call": "c1"}, 60, got.append)
    peer = far.accept()
    first = far.request()
    far.say(raw) if raw else peer.close()
    let(link)
    assert got == []
    assert repr(link) == "<GatewayLink open=1 connections=0>"
    link.tick()  # not at once
    assert repr(link) == "<GatewayLink open=1 connections=0>"
    clock.now += MIN_RECONNECT_DELAY_S
    link.tick()
    far.accept()
    assert far.request() == first
    far.say(problem("bad-field", "never"), status="400 Bad Request")
    let(link)
    (refused,) = got
    assert isinstance(refused, GatewayRefused)
    assert (str(refused), refused.failed) == ("never", False)


def test_a_failure_of_the_gateway_is_told_from_a_refusal(far: Far, link: GatewayLink) -> None:
    got: list[Outcome] = []
    link.send_request("call", {}, 60, got.append)
    far.accept()
    far.say(problem("internal", "its log holds the reason"), status="500 Internal Server Error")
    let(link)
    (refused,) = got
    assert isinstance(refused, GatewayRefused)
    assert refused.failed


def test_without_a_question_no_connection_is_made_or_kept_alive(far: Far, link: GatewayLink, clock: Clock) -> None:
    assert link.seconds_until_due() is None
    link.tick()
    assert repr(link) == "<GatewayLink open=0 connections=0>"
    link.send_request("answered", {}, 60, lambda _: None)
    peer = far.accept()
    far.say({})
    let(link)
    peer.close()
    let(link)
    clock.now += 3600
    link.tick()
    assert repr(link) == "<GatewayLink open=0 connections=0>"
    assert link.seconds_until_due() is None


def test_attempts_to_connect_come_less_and_less_often_up_to_a_bound(far: Far, link: GatewayLink, clock: Clock) -> None:
    far.close()
    got: list[Outcome] = []
    link.send_request("call", {}, 10, got.append)
    waits = []
    while not got:
        wait = link.seconds_until_due()
        assert wait is not None
        waits.append(wait)
        clock.now += wait
        link.tick()
    assert waits[0] == pytest.approx(MIN_RECONNECT_DELAY_S)
    assert max(waits) == pytest.approx(MAX_RECONNECT_DELAY_S)
    assert len(waits) < 20
    (lost,) = got
    assert isinstance(lost, NoGatewayAnswer)
    assert lost.sent is False
    assert "cannot be reached" in str(lost)


def test_only_a_whole_request_counts_as_handed_over(far: Far, link: GatewayLink, clock: Clock) -> None:
    got: list[Outcome] = []
    link.send_request("call", {"text": "x" * (4 << 20)}, 10, got.append)  # more than a socket holds
    peer = far.accept()
    clock.now += 11
    link.tick()
    (lost,) = got
    assert isinstance(lost, NoGatewayAnswer)
    assert lost.sent is False
    while peer.recv(1 << 20):  # the half that was sent is no request: the connection ends
        pass


def test_an_answer_that_comes_after_the_patience_ran_out_is_dropped(far: Far, link: GatewayLink, clock: Clock) -> None:
    got: list[Outcome] = []
    link.send_request("call", {}, 10, got.append)
    far.accept()
    far.request()
    clock.now += 10
    link.tick()
    (lost,) = got
    assert isinstance(lost, NoGatewayAnswer)
    assert lost.sent is True
    far.say({})
    let(link)
    assert got == [lost]
    link.send_request("call", {"n": 2}, 10, got.append)
    assert far.request()[1] == {"n": 2}, "the connection is used again"


def test_requests_in_order_wait_for_each_other_and_others_do_not(far: Far, link: GatewayLink) -> None:
    got: list[Outcome] = []
    for n in range(3):
        link.send_request("call", {"n": n}, 60, got.append, in_order=True)
    link.send_request("call", {"n": "other"}, 60, got.append)
    first, other = far.accept(), far.accept()
    assert far.request(first)[1] == {"n": 0}
    assert far.request(other)[1] == {"n": "other"}
    for n in range(3):
        far.say({"n": n}, first)
        let(link)
        if n < 2:
            assert far.request(first)[1] == {"n": n + 1}
    assert got == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert repr(link) == "<GatewayLink open=1 connections=2>"


def test_a_request_that_was_given_up_lets_the_next_one_go(far: Far, link: GatewayLink) -> None:
    got: list[Outcome] = []
    first = link.send_request("call", {"n": 0}, 60, got.append, in_order=True)
    behind = link.send_request("call", {"n": 1}, 60, got.append, in_order=True)
    link.send_request("call", {"n": 2}, 60, got.append, in_order=True)
    held = far.accept()
    far.request(held)
    link.drop_request(behind)
    link.drop_request(first)
    assert far.request(far.accept())[1] == {"n": 2}
    far.say({"n": 0}, held)
    let(link)
    assert got == [], "its answer is nobody's any more"


def test_a_request_beyond_the_bound_is_refused_at_once(link: GatewayLink) -> None:
    with pytest.raises(GatewayRefused, match="the limit is 8388608"):
        link.send_request("call", {"text": "x" * MAX_BODY_BYTES}, 60, lambda _: None)
    assert link.open_requests == 0
