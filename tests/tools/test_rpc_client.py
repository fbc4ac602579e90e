"""The link that asks again (semel.tools.rpc_client.GatewayLink), against another end that misbehaves on purpose."""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semel.tools.rpc_client import (
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
    """The other end, played by hand."""

    def __init__(self, path: Path):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.fspath(path))
        self.listener.listen()
        self.listener.settimeout(5)
        self.peer: socket.socket | None = None

    def accept(self) -> None:
        if self.peer is not None:
            self.peer.close()
        self.peer, _ = self.listener.accept()
        self.peer.settimeout(5)

    def lines(self, count: int) -> list[Json]:
        assert self.peer is not None
        data = b""
        while data.count(b"\n") < count:
            data += self.peer.recv(1 << 16)
        assert data.count(b"\n") == count
        return [json.loads(line) for line in data.splitlines()]

    def say(self, raw: bytes | Json) -> None:
        assert self.peer is not None
        self.peer.sendall(raw if isinstance(raw, bytes) else json.dumps(raw).encode() + b"\n")

    def hang_up(self) -> None:
        assert self.peer is not None
        self.peer.close()

    def close(self) -> None:
        self.listener.close()
        if self.peer is not None:
            self.peer.close()


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
    link = GatewayLink(os.fspath(far.path), clock)
    yield link
    link.close()


def let(link: GatewayLink) -> None:
    """What the owner's loop does when the socket can be read."""
    assert link.socket is not None
    assert select.select([link.socket], [], [], 5)[0]
    link.ready()


def test_the_gateways_stopping_is_no_answer_and_the_same_line_is_asked_again(
    far: Far, link: GatewayLink, clock: Clock
) -> None:
    got: list[Outcome] = []
    link.ask("call", {"call": "c1"}, 60, got.append)
    far.accept()
    first = far.lines(1)
    far.say({"id": first[0]["id"], "error": {"code": "stopping", "message": "later"}})
    let(link)
    assert got == []
    far.hang_up()
    let(link)
    assert repr(link) == "<Link apart open=1 unwritten=0>"
    clock.now += MIN_RECONNECT_DELAY_S
    link.tick()
    far.accept()
    assert far.lines(1) == first
    far.say({"id": first[0]["id"], "result": {"ok": True}})
    let(link)
    assert got == [{"ok": True}]
    assert link.open == 0


@pytest.mark.parametrize("raw", [b"nonsense\n", b"[]\n", b"{}\n", b'{"id":1}\n', b'{"id":1,"error":5}\n'])
def test_an_answer_that_is_none_ends_the_connection_and_not_the_request(
    far: Far, link: GatewayLink, clock: Clock, raw: bytes
) -> None:
    got: list[Outcome] = []
    link.ask("call", {}, 60, got.append)
    far.accept()
    far.lines(1)
    far.say(raw)
    let(link)
    assert link.socket is None
    clock.now += MIN_RECONNECT_DELAY_S
    link.tick()
    far.accept()
    far.say({"id": far.lines(1)[0]["id"], "error": {"code": "no", "message": "never"}})
    let(link)
    (refused,) = got
    assert isinstance(refused, GatewayRefused)
    assert (refused.code, str(refused)) == ("no", "never")


def test_without_a_question_no_connection_is_made_or_kept_alive(far: Far, link: GatewayLink, clock: Clock) -> None:
    assert link.wait() is None
    link.tick()
    assert link.socket is None
    link.ask("answered", {}, 60, lambda _: None)
    far.accept()
    far.say({"id": far.lines(1)[0]["id"], "result": {}})
    let(link)
    far.hang_up()
    let(link)
    clock.now += 3600
    link.tick()
    assert link.socket is None
    assert link.wait() is None


def test_attempts_to_connect_come_less_and_less_often_up_to_a_bound(far: Far, link: GatewayLink, clock: Clock) -> None:
    far.close()
    got: list[Outcome] = []
    link.ask("call", {}, 10, got.append)
    waits = []
    while not got:
        wait = link.wait()
        assert wait is not None
        waits.append(wait)
        clock.now += wait
        link.tick()
    assert waits[0] == pytest.approx(MIN_RECONNECT_DELAY_S)
    assert max(waits) == pytest.approx(MAX_RECONNECT_DELAY_S)
    assert len(waits) < 20
    (lost,) = got
    assert isinstance(lost, NoGatewayAnswer)
    assert lost.handed is False
    assert "cannot be reached" in str(lost)


def test_only_a_whole_line_counts_as_handed_over(far: Far, link: GatewayLink, clock: Clock) -> None:
    got: list[Outcome] = []
    link.ask("call", {"text": "x" * (4 << 20)}, 10, got.append)  # more than a socket holds
    far.accept()
    assert link.wants_write
    clock.now += 11
    link.tick()
    (lost,) = got
    assert isinstance(lost, NoGatewayAnswer)
    assert lost.handed is False


def test_a_request_given_up_half_written_is_written_to_its_end_and_one_behind_it_not_at_all(
    far: Far, link: GatewayLink
) -> None:
    got: list[Outcome] = []
    half = link.ask("call", {"text": "x" * (4 << 20)}, 60, got.append)
    behind = link.ask("call", {"text": "never"}, 60, got.append)
    link.ask("call", {"text": "last"}, 60, got.append)
    far.accept()
    link.forget(half)
    link.forget(behind)
    assert far.peer is not None
    far.peer.setblocking(False)
    data = b""
    while link.wants_write or data.count(b"\n") < 2:
        link.ready()
        try:
            data += far.peer.recv(1 << 20)
        except BlockingIOError:
            continue
    texts = [json.loads(line)["params"]["text"] for line in data.splitlines()]
    assert [text[:5] for text in texts] == ["xxxxx", "last"]
    assert got == []


def test_an_answer_that_comes_after_the_patience_ran_out_is_dropped(far: Far, link: GatewayLink, clock: Clock) -> None:
    got: list[Outcome] = []
    link.ask("call", {}, 10, got.append)
    far.accept()
    (asked,) = far.lines(1)
    clock.now += 10
    link.tick()
    (lost,) = got
    assert isinstance(lost, NoGatewayAnswer)
    assert lost.handed is True
    far.say({"id": asked["id"], "result": {}})
    let(link)
    assert got == [lost]
    assert link.socket is not None
