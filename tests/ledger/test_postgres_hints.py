"""Gateways that share a database tell each other about their commits, whatever happens to their connections."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from proof.postgres_server import PostgresServer, needs_postgres, shared_server
from semel.ledger.storage.cluster import ClusterHints, Hint

if TYPE_CHECKING:
    from semel.ledger.postgres.hints import PostgresHints

pytestmark = needs_postgres
BOUND_S = 20.0
END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'semel hints'"
SEND = "SELECT pg_notify('semel_hints', '{}')"


class Gateway:
    """A gateway's end of the hints, and what it has received."""

    def __init__(self, url: str, name: str, has_duties: bool = False) -> None:
        from semel.ledger.postgres.hints import PostgresHints

        self.name = name
        self.has_duties = has_duties
        self.received: queue.Queue[Hint] = queue.Queue()
        self.hints: PostgresHints = PostgresHints(url, name, lambda: self.has_duties)

    def start(self) -> Gateway:
        self.hints.start(self.received.put)
        assert self.get() == Hint(self.name, is_gap=True)
        return self

    def get(self) -> Hint:
        return self.received.get(timeout=BOUND_S)

    def collect(self, changed: set[int]) -> list[Hint]:
        """Receive until all of these sessions are told as changed. Return the hints."""
        hints, missing = list[Hint](), set(changed)
        while missing:
            hints.append(self.get())
            missing -= hints[-1].changed
        return hints

    def wait_for_gap(self) -> None:
        while not (hint := self.get()).is_gap:
            pass
        assert hint.sender == self.name

    def has_heard_nothing(self, other: Gateway) -> bool:
        """Whether what the other one tells now is the first that this one hears."""
        other.hints.tell_changed([0])
        return self.get() == Hint(other.name, changed=frozenset({0}))


Start = Callable[..., Gateway]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a gateway's hints: the arguments are its name and whether it has the duties."""
    started: list[Gateway] = []

    def start(name: str, has_duties: bool = False, server: PostgresServer | None = None) -> Gateway:
        started.append(Gateway((server or shared_server()).url(), name, has_duties))
        return started[-1].start()

    yield start
    for gateway in started:
        gateway.hints.close()
        assert not any(thread.is_alive() for thread in gateway.hints._threads)


def test_every_other_gateway_hears_of_a_change_and_only_the_named_one_is_woken(start: Start) -> None:
    one, other, third = start("one"), start("o\"th\\er's ☃"), start("third", has_duties=True)
    one.hints.tell_changed([1, 2])
    assert other.collect({1, 2}) and third.collect({1, 2})
    one.hints.wake_session(other.name, 3)
    assert other.get() == Hint("one", woken=frozenset({3}))
    one.hints.wake_session(None, 4)
    assert third.get() == Hint("one", woken=frozenset({4}))
    other.hints.tell_duties()
    assert third.get() == Hint(other.name, duties=True)
    third.hints.wake_session("third", 5)
    third.hints.tell_changed(())
    assert one.has_heard_nothing(third) and other.get() == Hint("third", changed=frozenset({0}))
    assert third.has_heard_nothing(one)


def test_who_has_the_duties_is_asked_when_a_hint_comes(start: Start) -> None:
    one, other = start("one"), start("other")
    one.hints.tell_duties()
    one.hints.wake_session(None, 1)
    assert other.has_heard_nothing(one)
    other.has_duties = True
    one.hints.wake_session(None, 1)
    assert other.get() == Hint("one", woken=frozenset({1}))


def test_a_gateway_that_starts_again_hears_one_of_the_same_name(start: Start) -> None:
    before, after = start("one"), start("one")
    before.hints.tell_changed([1])
    assert after.get() == Hint("one", changed=frozenset({1}))
    assert before.has_heard_nothing(after)


def test_what_is_told_at_once_travels_in_few_messages_that_are_short_enough(start: Start) -> None:
    from semel.ledger.postgres.hints import MAX_WAITING

    one, other = start("one"), start("other" * 12)
    sessions = {(1 << 62) + n for n in range(MAX_WAITING // 2)}
    for session in sessions:
        one.hints.wake_session(other.name, session)
    one.hints.tell_changed(sessions)
    woken: set[int] = set()
    hints = other.collect(sessions)
    for hint in hints:
        woken |= hint.woken
    assert woken == sessions and len(hints) < 40 and not any(hint.is_gap for hint in hints)


def test_if_too_much_is_told_at_once_everybody_looks_at_everything(start: Start) -> None:
    one, other = start("one"), start("other")
    began = time.monotonic()
    one.hints.tell_changed(range(10_000))
    assert time.monotonic() - began < 0.1
    assert other.get() == Hint("one", is_gap=True)
    one.hints.tell_changed([1])
    assert other.get() == Hint("one", changed=frozenset({1}))


def test_a_gateway_sends_at_most_200_messages_a_second(start: Start) -> None:
    one, other = start("one"), start("other")
    told, end = 0, time.monotonic() + 0.5
    while time.monotonic() < end:
        told += 1
        one.hints.tell_changed([told])
        time.sleep(0.0002)
    hints = other.collect(set(range(1, told + 1)))
    assert len(hints) <= 110


def test_threads_that_tell_at_once_lose_nothing(start: Start) -> None:
    one, other = start("one"), start("other")

    def tell(hints: ClusterHints, first: int) -> None:
        for session in range(first, first + 300):
            hints.tell_changed([session])

    threads = [threading.Thread(target=tell, args=(one.hints, n * 300)) for n in range(4)]
    for thread in threads:
        thread.start()
    other.collect(set(range(1200)))
    for thread in threads:
        thread.join()


def test_a_lost_connection_is_told_and_hints_go_on(start: Start) -> None:
    one, other = start("one"), start("other")
    for n in range(3):
        shared_server().execute(END_CONNECTIONS)
        one.hints.tell_changed([n])  # on a connection that has just ended
        one.wait_for_gap()
        other.wait_for_gap()
        one.hints.tell_changed([10 + n])
        assert not any(hint.is_gap for hint in other.collect({10 + n}))


def test_what_is_told_while_the_server_is_away_is_sent_when_it_is_back(start: Start) -> None:
    server = PostgresServer()
    try:
        one, other = start("one", server=server), start("other", server=server)
        one.hints.tell_changed([1])
        other.collect({1})
        assert "WARNING" not in (server.folder / "log").read_text()
        server.kill()
        one.hints.tell_changed([1])
        one.hints.wake_session("other", 2)
        server.start()
        assert other.get() == Hint("other", is_gap=True)  # whatever the sender did before, it looks at everything now
        one.hints.tell_changed([3])
        other.collect({3})

        server.kill()
        for session in range(10_000):
            one.hints.tell_changed([session])
        assert len(one.hints._waiting._changed) <= 2_000
        began = time.monotonic()
        one.hints.close()
        assert time.monotonic() - began < 1.0, "it does not wait for the server"
    finally:
        server.stop()


def test_messages_of_others_on_the_channel_do_no_harm(start: Start) -> None:
    one, other = start("one"), start("other")
    for message in (
        "",
        "hello",
        "[]",
        "{}",
        '{"from": 1, "name": 2, "woken": 3}',
        '{"from": 1, "name": 2, "changed": "x"}',
    ):
        shared_server().execute(SEND.format(message))
    assert other.has_heard_nothing(one)
    shared_server().execute(SEND.format('{"from": "x", "name": "newer", "changed": [1], "more": {}}'))
    assert other.get() == Hint("newer", changed=frozenset({1}))


def test_a_receiver_that_fails_hears_the_next_hint(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    one, failing, seen = start("one"), Gateway(shared_server().url(), "failing"), threading.Event()

    def receive(hint: Hint) -> None:
        if hint.is_gap:
            raise RuntimeError("planted")
        seen.set()

    failing.hints.start(receive)
    try:
        end = time.monotonic() + BOUND_S
        while not caplog.records:
            assert time.monotonic() < end
            time.sleep(0.01)
        one.hints.tell_changed([1])
        assert seen.wait(BOUND_S)
    finally:
        failing.hints.close()
    assert "planted" in caplog.text


def test_what_was_told_is_sent_before_the_hints_end(start: Start) -> None:
    one, other = start("one"), start("other")
    began = time.monotonic()
    one.hints.tell_changed(range(1_500))
    one.hints.close()
    assert time.monotonic() - began < 1.0
    other.collect(set(range(1_500)))
    one.hints.tell_changed([2_000])  # does nothing
    one.hints.close()
