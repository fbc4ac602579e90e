"""Gateways that share a database: one is active, another one takes over when it is gone, hangs or is cut off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from proof.machines.engines import empty_database
from proof.postgres_server import needs_postgres, shared_server
from semel.ledger.engines import list_gateways
from semel.ledger.storage.cluster import GatewayIdentity
from semel.ledger.storage.location import DatabaseUrl

if TYPE_CHECKING:
    from semel.ledger.postgres.members import Member
    from semel.ledger.postgres.store import PostgresStore

pytestmark = needs_postgres
END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'semel'"
END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'semel%'"
STEP_S = 0.1


@pytest.fixture
def url() -> str:
    return empty_database()


@pytest.fixture
def members(url: str) -> Iterator[Callable[[str], Member]]:
    from semel.ledger.postgres.members import Member

    made: list[Member] = []

    def join(name: str) -> Member:
        made.append(Member(url, GatewayIdentity(name, f"https://{name}.example", f"{name}-host", "0.2.0")))
        return made[-1]

    yield join
    for member in made:
        member.leave()
        if member.holder is not None:
            member.holder.release()


def open_store(url: str, member: Member) -> PostgresStore:
    from semel.ledger.postgres.store import PostgresStore

    return PostgresStore.open(url, member=member)


def wait_for_takeover(member: Member, at_most_s: float) -> float:
    """Return how many seconds it took."""
    began = time.monotonic()
    while not member.try_to_take_over():
        assert time.monotonic() - began < at_most_s
        time.sleep(STEP_S)
    return time.monotonic() - began


def names(url: str) -> list[tuple[str, bool]]:
    return [(gateway.name, gateway.is_active) for gateway in list_gateways(DatabaseUrl(url))]


def set_cursor(store: PostgresStore, value: str) -> None:
    store.write_sync(lambda tx: tx.run("cursor_set", source="a", value=value, at=1))


def test_one_is_active_and_the_other_one_waits_until_it_leaves(url: str, members: Callable[[str], Member]) -> None:
    one, other = members("one"), members("other")
    assert one.try_to_take_over() and one.active is None
    with open_store(url, one) as store:
        assert not other.try_to_take_over()
        assert other.active is not None
        assert (other.active.name, other.active.address) == ("one", "https://one.example")
        assert names(url) == [("one", True), ("other", False)]
        set_cursor(store, "1")
    one.leave()
    assert wait_for_takeover(other, 0.5) < 0.5, "it need not wait for the lease of one that has left"
    with open_store(url, other) as store:
        assert store.was_closed
        assert names(url) == [("other", True)]


def test_gateways_that_start_at_once_on_an_empty_database_agree(url: str, members: Callable[[str], Member]) -> None:
    all_members, errors = [members(f"m{n}") for n in range(4)], list[Exception]()
    barrier, done = threading.Barrier(len(all_members)), threading.Event()
    opened: list[PostgresStore] = []

    def start(member: Member) -> None:
        barrier.wait()
        try:
            while not done.is_set():
                if member.holder is None and member.try_to_take_over():
                    opened.append(open_store(url, member))
                time.sleep(0.02)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(member,)) for member in all_members]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: bool(errors) or (bool(opened) and len(names(url)) == len(all_members)), 30.0)
    finally:
        done.set()
        for thread in threads:
            thread.join()
        for store in opened:
            store.close()
    assert not errors and len(opened) == 1


def test_the_other_one_takes_over_from_a_killed_one_within_two_seconds(
    url: str, members: Callable[[str], Member]
) -> None:
    from semel.ledger.postgres.errors import DatabaseTakenOver

    one, other, lost = members("one"), members("other"), list[str]()
    assert one.try_to_take_over()
    with open_store(url, one) as cut_off:
        set_cursor(cut_off, "1")
        assert not other.try_to_take_over()
        shared_server().execute(END_ALL)  # as if it were killed; it connects again too late
        cut_off._holder.hold_again = lambda: None  # type: ignore[union-attr,method-assign]
        assert 0.9 < wait_for_takeover(other, 3.0) < 2.0
        with open_store(url, other) as store:
            assert not store.was_closed
            with pytest.raises(DatabaseTakenOver):
                set_cursor(cut_off, "zombie")
            one.guard(lost.append)
            wait_until(lambda: lost == ["another gateway has taken over"], 5.0)
            cut_off.close()
            set_cursor(store, "2")  # what was cut off has not dismissed the workers of the active one


def test_a_moment_without_connections_changes_nothing(url: str, members: Callable[[str], Member]) -> None:
    one, other, lost = members("one"), members("other"), list[str]()
    assert one.try_to_take_over()
    with open_store(url, one) as store:
        one.guard(lost.append)
        for _ in range(3):
            assert not other.try_to_take_over()
            shared_server().execute(END_CONNECTIONS)
            set_cursor(store, "1")
        assert not other.try_to_take_over()
        assert not lost and names(url) == [("one", True), ("other", False)]


def test_the_other_one_takes_over_from_one_that_hangs_when_its_lease_has_ended(
    url: str, members: Callable[[str], Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres.errors import DatabaseTakenOver

    shorten_lease(monkeypatch)
    one, other = members("one"), members("other")
    assert one.try_to_take_over()
    with open_store(url, one) as hanging:  # nothing renews its row, and it keeps its connections
        waited = wait_for_takeover(other, 10.0)
        assert 1.5 < waited < 5.0
        with open_store(url, other) as store:
            set_cursor(store, "1")
            with pytest.raises(DatabaseTakenOver):
                set_cursor(hanging, "zombie")


def shorten_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds instead of ten."""
    from semel.ledger.postgres import members
    from semel.ledger.postgres.statements import Statement

    for name in ("_JOIN", "_RENEW"):
        statement: Statement = getattr(members, name)
        short = statement.sql.decode().replace(f"'{members.LEASE_S} s'", "'2 s'")
        changed = Statement(f"{statement.name}_short", short)
        changed.parameters = statement.parameters
        monkeypatch.setattr(members, name, changed)


def test_a_gateway_knows_in_time_that_it_may_have_been_replaced(
    url: str, members: Callable[[str], Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres import members as module

    monkeypatch.setattr(module, "TRUST_S", 1.0)
    one, lost, told = members("one"), list[str](), threading.Event()
    assert one.try_to_take_over()
    with open_store(url, one):
        monkeypatch.setattr(one, "_show_life", lambda _: time.sleep(60))  # the server does not answer
        began = time.monotonic()
        one.guard(lambda reason: (lost.append(reason), told.set()))
        assert told.wait(10) and time.monotonic() - began > 0.9
        assert lost == ["the database has not answered for 1 s"]


def test_a_gateway_without_a_cluster_is_never_taken_over_from(url: str, members: Callable[[str], Member]) -> None:
    from semel.ledger.postgres.store import PostgresStore

    one, other = members("one"), members("other")
    assert one.try_to_take_over()
    open_store(url, one).close()  # killed before it could leave
    with PostgresStore.open(url) as alone:
        for _ in range(15):
            assert not other.try_to_take_over() and other.active is None
            time.sleep(STEP_S)
        set_cursor(alone, "1")
    assert wait_for_takeover(other, 0.5) < 0.5


def wait_until(condition: Callable[[], bool], at_most_s: float) -> None:
    end = time.monotonic() + at_most_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
