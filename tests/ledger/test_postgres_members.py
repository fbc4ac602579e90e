"""Gateways that share a database: one is active, another one takes over when it is gone, hangs or is cut off.

The others run turns beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from proof.machines.engines import empty_database
from proof.postgres_server import needs_postgres, shared_server
from semel.ledger.engines import list_gateways
from semel.ledger.storage.cluster import ClusterGateway, GatewayIdentity
from semel.ledger.storage.location import DatabaseUrl

if TYPE_CHECKING:
    from semel.ledger.postgres.members import Member
    from semel.ledger.postgres.store import PostgresStore

pytestmark = needs_postgres
END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^semel [0-9]+$'"
END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'semel%'"
STEP_S = 0.1
BLIP_S = 1.0  # as in members.py


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


class Watcher:
    """What a member tells. `gateways`: those that live, as they were told last."""

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.is_active = False
        self.active_then: list[str] = []  # the active one, as this one knew when it was told that it is
        self.gateways: list[ClusterGateway] = []
        self.agents = 0
        self.hangs = False

    def note_loss(self, reason: str) -> None:
        self.lost.append(reason)

    def note_active(self) -> None:
        self.is_active = True
        self.active_then = [gateway.name for gateway in self.gateways if gateway.is_active]

    def note_gateways(self, gateways: Sequence[ClusterGateway]) -> None:
        self.gateways = list(gateways)

    def count_agents(self) -> int:
        return self.agents

    def is_answering(self) -> bool:
        return not self.hangs

    @property
    def names(self) -> list[str]:
        return [gateway.name for gateway in self.gateways]


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


def test_a_gateway_of_an_older_version_waits_and_says_that_the_ledger_is_newer(
    url: str, members: Callable[[str], Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres import members as module

    one, older = members("one"), members("older")
    assert one.try_to_take_over()
    with open_store(url, one):
        known = module.list_migrations()[:-1]
        monkeypatch.setattr(module, "list_migrations", lambda: known)
        assert not older.try_to_take_over() and not older.may_serve
        versions = f"has version {known[-1].version + 1}; this Semel knows versions up to {known[-1].version}"
        assert older.problem is not None and versions in older.problem and "Run the newer Semel" in older.problem
    one.leave()
    for _ in range(3):
        assert not older.try_to_take_over(), "it takes no ledger that it cannot read"
        time.sleep(STEP_S)


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

    one, other, watcher = members("one"), members("other"), Watcher()
    assert one.try_to_take_over()
    with open_store(url, one) as cut_off:
        set_cursor(cut_off, "1")
        assert not other.try_to_take_over()
        shared_server().execute(END_ALL)  # as if it were killed; it connects again too late
        cut_off._place.hold_again = lambda: None  # type: ignore[union-attr,method-assign]
        assert 0.9 < wait_for_takeover(other, 3.0) < 2.0
        with open_store(url, other) as store:
            assert not store.was_closed
            with pytest.raises(DatabaseTakenOver):
                set_cursor(cut_off, "zombie")
            one.report_to(watcher)
            wait_until(lambda: bool(watcher.lost), 5.0)
            cut_off.close()
            set_cursor(store, "2")  # what was cut off has not dismissed the workers of the active one


def test_a_moment_without_connections_changes_nothing(url: str, members: Callable[[str], Member]) -> None:
    one, other, watcher = members("one"), members("other"), Watcher()
    assert one.try_to_take_over()
    with open_store(url, one) as store:
        one.report_to(watcher)
        for _ in range(3):
            assert not other.try_to_take_over()
            shared_server().execute(END_CONNECTIONS)
            set_cursor(store, "1")
        assert not other.try_to_take_over()
        assert not watcher.lost and names(url) == [("one", True), ("other", False)]


@pytest.mark.parametrize("ended", [END_CONNECTIONS, END_ALL], ids=["a blip", "a restart of the server"])
def test_an_idle_gateway_stays_active_if_its_connections_end(
    url: str, members: Callable[[str], Member], ended: str
) -> None:
    one, other, watcher = members("one"), members("other"), Watcher()
    assert one.try_to_take_over()
    with open_store(url, one):  # it writes nothing, so no worker connects again
        one.report_to(watcher)
        assert not other.try_to_take_over()
        shared_server().execute(ended)
        end = time.monotonic() + BLIP_S + 0.7
        while time.monotonic() < end:
            assert not other.try_to_take_over()
            time.sleep(STEP_S)
        assert not watcher.lost


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

    monkeypatch.setattr(members, "LEASE_S", 2.0)


def test_a_gateway_knows_in_time_that_it_may_have_been_replaced(
    url: str, members: Callable[[str], Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres import members as module

    monkeypatch.setattr(module, "TRUST_S", 1.0)
    began = time.monotonic()
    one, watcher = members("one"), Watcher()
    assert one.try_to_take_over()
    with open_store(url, one):
        monkeypatch.setattr(one, "_connect", connect_to_nobody)
        one.report_to(watcher)
        wait_until(lambda: bool(watcher.lost), 10.0)
        assert time.monotonic() - began > 0.9
        assert watcher.lost == ["the database has not answered for 1 s"]


def connect_to_nobody() -> None:
    """The server does not answer."""
    from semel.ledger.postgres.wire import ConnectionLost

    time.sleep(60)
    raise ConnectionLost


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


# ---------------------------------------------------------------- gateways that run turns beside the active one


def open_beside(url: str, member: Member) -> PostgresStore:
    """Let a member serve beside the active one."""
    wait_until(lambda: not member.try_to_take_over() and member.may_serve, 5.0)
    return open_store(url, member)


def test_another_gateway_writes_beside_the_active_one_and_goes_on_when_it_takes_over(
    url: str, members: Callable[[str], Member]
) -> None:
    one, other, watcher = members("one"), members("other"), Watcher()
    assert one.try_to_take_over()
    store = open_store(url, one)
    with open_beside(url, other) as beside:
        other.report_to(watcher)
        set_cursor(beside, "1")
        set_cursor(store, "2")
        wait_until(lambda: watcher.names == ["one", "other"], 5.0)
        assert [(gateway.serves, gateway.is_active) for gateway in watcher.gateways] == [(True, True), (True, False)]
        store.close()
        one.leave()
        wait_until(lambda: watcher.is_active and watcher.names == ["other"], 3.0)
        assert watcher.active_then == ["other"]
        assert beside.was_closed
        set_cursor(beside, "3")
        assert not watcher.lost


def test_the_active_one_buries_a_killed_gateway_within_two_seconds(url: str, members: Callable[[str], Member]) -> None:
    from semel.ledger.postgres.errors import DatabaseTakenOver

    one, other, watcher = members("one"), members("other"), Watcher()
    assert one.try_to_take_over()
    with open_store(url, one) as store, open_beside(url, other) as beside:
        one.report_to(watcher)
        wait_until(lambda: watcher.names == ["one", "other"], 5.0)
        other._disconnect()  # nothing shows its life any more
        began = time.monotonic()
        wait_until(lambda: watcher.names == ["one"], 5.0)
        assert 0.9 < time.monotonic() - began < 2.5
        with pytest.raises(DatabaseTakenOver):
            set_cursor(beside, "zombie")
        set_cursor(store, "1")


def test_a_gateway_that_hangs_is_buried_when_its_lease_has_ended_and_learns_of_it(
    url: str, members: Callable[[str], Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres.errors import DatabaseTakenOver

    shorten_lease(monkeypatch)
    from semel.ledger.postgres import members as module

    monkeypatch.setattr(module, "RENEWAL_S", 0.5)
    one, other, watcher, late = members("one"), members("other"), Watcher(), Watcher()
    assert one.try_to_take_over()
    with open_store(url, one), open_beside(url, other) as beside:
        one.report_to(watcher)
        wait_until(lambda: "other" in watcher.names, 5.0)
        wait_until(lambda: watcher.names == ["one"], 6.0)  # it holds its lock all the time
        with pytest.raises(DatabaseTakenOver):
            set_cursor(beside, "zombie")
        other.report_to(late)
        wait_until(lambda: bool(late.lost), 5.0)
        assert late.lost[0].startswith("another gateway has removed this one")


def test_two_living_gateways_cannot_have_one_name(url: str, members: Callable[[str], Member]) -> None:
    one, twin = members("one"), members("one")
    assert one.try_to_take_over()
    with open_store(url, one):
        assert not twin.try_to_take_over()
        assert twin.problem is not None and "another gateway named one lives, on one-host" in twin.problem
        assert not twin.may_serve
    one.leave()
    assert wait_for_takeover(twin, 0.5) < 0.5


def test_a_gateway_whose_name_was_taken_a_moment_ago_does_not_remove_that_one(
    url: str, members: Callable[[str], Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, twin = members("one"), members("one")
    start_of_twin = threading.Thread(target=twin.try_to_take_over)
    take_lock = one._take_lock

    def let_twin_start(*args: Any) -> None:
        monkeypatch.undo()
        start_of_twin.start()
        start_of_twin.join(0.5)  # it has to wait
        take_lock(*args)

    monkeypatch.setattr(one, "_take_lock", let_twin_start)
    assert one.try_to_take_over()
    start_of_twin.join()
    with open_store(url, one) as store:
        assert twin.holder is None and twin.problem is not None and "another gateway named one lives" in twin.problem
        assert names(url) == [("one", True)]
        set_cursor(store, "1")


def test_a_gateway_whose_name_is_taken_by_one_that_is_about_to_become_active_waits(
    url: str, members: Callable[[str], Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, twin = members("one"), members("one")
    monkeypatch.setattr(one, "_take_over", lambda *_: False)
    assert not one.try_to_take_over()
    monkeypatch.undo()
    assert not twin.try_to_take_over()
    assert twin.problem is not None and "another gateway named one lives" in twin.problem
    assert one.try_to_take_over()


def test_a_gateway_with_the_name_of_one_that_makes_the_tables_waits(members: Callable[[str], Member]) -> None:
    from semel.ledger.postgres.members import Member

    database = shared_server().create_database()
    url = shared_server().url(database)
    one, twin = (Member(url, GatewayIdentity("one", None, f"host-{n}", "0.2.0")) for n in range(2))
    add_workers = one.add_workers

    def let_twin_start(count: int) -> list[int]:
        assert not twin.try_to_take_over()
        return add_workers(count)

    one.add_workers = let_twin_start  # type: ignore[method-assign]
    assert one.try_to_take_over()
    with open_store(url, one) as store:
        assert names(url) == [("one", True)]
        assert not twin.try_to_take_over()
        assert twin.problem is not None and "another gateway named one lives, on host-0" in twin.problem
        set_cursor(store, "1")
    for member in (one, twin):
        member.leave()
    shared_server().drop_database(database)


def test_a_gateway_whose_connection_was_lost_for_a_moment_keeps_its_name(
    url: str, members: Callable[[str], Member]
) -> None:
    one, other, twin, watcher = members("one"), members("other"), members("other"), Watcher()
    assert one.try_to_take_over()
    with open_store(url, one), open_beside(url, other) as beside:
        other._disconnect()
        assert not twin.try_to_take_over() and not twin.may_serve
        assert twin.problem is not None and "the gateway other on other-host was there a moment ago" in twin.problem
        other.report_to(watcher)  # it connects again
        wait_until(lambda: watcher.names == ["one", "other"], 5.0)
        time.sleep(BLIP_S + STEP_S)  # as long as a twin would wait for one that is gone
        assert not twin.try_to_take_over() and not twin.may_serve
        assert twin.problem is not None and "another gateway named other lives" in twin.problem
        set_cursor(beside, "1")
        assert not watcher.lost


def test_a_gateway_with_another_owner_token_does_not_join(url: str, members: Callable[[str], Member]) -> None:
    from semel.ledger.postgres.members import Member

    one = members("one")
    assert one.try_to_take_over()
    with open_store(url, one):
        other = Member(url, GatewayIdentity("other", None, "other-host", "0.2.0", token="another"))
        assert not other.try_to_take_over() and not other.may_serve
        assert other.problem is not None and "the gateway one on one-host has another owner.token" in other.problem


def test_a_gateway_that_starts_again_under_its_name_replaces_the_one_that_was_killed(
    url: str, members: Callable[[str], Member]
) -> None:
    from semel.ledger.postgres.errors import DatabaseTakenOver

    one, killed, again = members("one"), members("other"), members("other")
    assert one.try_to_take_over()
    with open_store(url, one), open_beside(url, killed) as old:
        killed._disconnect()
        with open_beside(url, again) as new:
            set_cursor(new, "1")
            with pytest.raises(DatabaseTakenOver):
                set_cursor(old, "zombie")


def test_a_gateway_without_a_cluster_ends_all_that_share_the_database(
    url: str, members: Callable[[str], Member]
) -> None:
    from semel.ledger.postgres.errors import DatabaseTakenOver
    from semel.ledger.postgres.store import PostgresStore

    one, other, watcher = members("one"), members("other"), Watcher()
    assert one.try_to_take_over()
    store = open_store(url, one)
    with open_beside(url, other) as beside:
        store.close()  # the database is free for a moment, and `other` does not look
        with PostgresStore.open(url) as alone:
            with pytest.raises(DatabaseTakenOver):
                set_cursor(beside, "zombie")
            other.report_to(watcher)
            wait_until(lambda: watcher.lost == ["another gateway has taken over"], 5.0)
            set_cursor(alone, "1")


def wait_until(condition: Callable[[], bool], at_most_s: float) -> None:
    end = time.monotonic() + at_most_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
