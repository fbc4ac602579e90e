"""Which gateway of a cluster serves a session, without any process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from semel.gateway import seats as module
from semel.gateway.record import Hub, LedgerAccess
from semel.gateway.seats import Lives, Seats
from semel.ledger.inbound.hear import Addressee, make_session
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.cluster import ClusterGateway, Hint
from semel.ledger.storage.rows import SessionRow
from semel.ledger.transcript import views
from semel.ledger.turns import seats as rows


class Hints:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.woken: list[tuple[str | None, int]] = []
        self.receive: Callable[[Hint], object] = lambda _: None

    def start(self, receive: Callable[[Hint], object]) -> None:
        self.receive = receive

    def tell_changed(self, sessions: Collection[int]) -> None: ...

    def wake_session(self, gateway: str | None, session: int) -> None:
        self.woken.append((gateway, session))

    def tell_duties(self) -> None: ...

    def close(self) -> None: ...


class Served:
    """Keeps what is looked at."""

    def __init__(self) -> None:
        self.sessions: list[int] = []

    def look_at(self, session: int) -> None:
        self.sessions.append(session)

    def is_attended(self, session: int) -> bool:
        return False

    def look_at_duties(self) -> None: ...


def gateway(name: str, agents: int = 0, room: int = 4, serves: bool = True) -> ClusterGateway:
    return ClusterGateway(name, f"http://{name}", name, "0.2.0", name == "alpha", 0, 0, serves, agents, room)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "ledger.db") as opened:
        yield opened


def session(store: Store, key: str, home: str | None = None, **columns: Any) -> SessionRow:
    number, _ = store.write_sync(make_session, Addressee(key, "agent", home), None, columns.get("folder"))
    if "seat" in columns:
        store.write_sync(lambda tx: tx.run("session_set_seat", id=number, seat=columns["seat"]))
    if columns.get("memory"):
        store.write_sync(lambda tx: tx.run("session_begin_memory", id=number, memory="m", chapter=1))
    row = store.read_sync(rows.find_session_row, key)
    assert row is not None
    return row


def active(*others: ClusterGateway, moving: Collection[str] = (), agents: int = 0) -> Seats:
    seats = Seats("alpha", Hints(), moving, room=4)
    seats.has_duties = True
    seats.count_agents = lambda: agents
    seats.note_gateways([gateway("alpha", agents), *others])
    return seats


def seat(seats: Seats, row: SessionRow, wanted_here: bool = False) -> str | None:
    return seats.rule.choose(row, wanted_here)


def test_the_emptiest_gateway_gets_a_session_and_a_chat_stays_with_the_channels(store: Store) -> None:
    seats = active(gateway("beta", agents=1), gateway("gamma", agents=0, serves=False), agents=2)
    assert seat(seats, session(store, "page", "web:page")) == "beta"
    assert seat(seats, session(store, "chat", "phone:7")) == "alpha"
    full = active(gateway("beta", agents=3), agents=4)
    assert seat(full, session(store, "other chat", "phone:8")) == "beta"


def test_sessions_that_come_at_once_are_spread(store: Store) -> None:
    seats = active(gateway("beta"))
    taken = []
    for number in range(6):
        row = session(store, f"s{number}")
        taken.append(store.write_sync(rows.take_seat, row, seats.rule))
    elsewhere = [one for one in taken if isinstance(one, rows.SeatedElsewhere)]
    assert len(elsewhere) == 3 and {one.seat for one in elsewhere} == {"beta"}


def test_a_seat_stays_while_its_gateway_lives_and_moves_only_with_what_may_move(store: Store) -> None:
    seats = active(gateway("beta"))
    assert seat(seats, session(store, "s", seat="beta")) == "beta"
    assert seat(seats, session(store, "new", seat="gone")) in ("alpha", "beta"), "its agent remembers nothing yet"
    bound = session(store, "bound", seat="gone", memory=True)
    assert seat(seats, bound) == "gone"
    assert seat(seats, session(store, "folder", seat="gone", folder="/there")) == "gone"
    assert seat(active(gateway("beta"), moving=["agent"]), bound) in ("alpha", "beta")
    other = Seats("beta", Hints(), ["agent"], room=4)
    other.note_gateways([gateway("alpha"), gateway("beta")])
    assert seat(other, bound) == "gone" and seat(other, session(store, "free")) is None
    assert seat(other, session(store, "free"), wanted_here=True) == "beta"


def test_a_session_whose_agent_has_ended_may_be_served_anywhere(store: Store) -> None:
    row = session(store, "s", seat="beta")
    store.write_sync(rows.free_seat, row.id, "alpha")
    kept = store.read_sync(rows.find_session_row, "s")
    assert kept is not None and kept.seat == "beta", "another gateway's session"
    store.write_sync(rows.free_seat, row.id, "beta")
    freed = store.read_sync(rows.find_session_row, "s")
    assert freed is not None and freed.seat is None


async def test_people_are_told_once_that_a_session_waits_for_a_gateway_that_is_gone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_INTERVAL_S", 0.01)
    monkeypatch.setattr(module, "AWAY_NOTICE_AFTER_S", 0.05)
    row = session(store, "bound", seat="gone", memory=True)
    store.write_sync(lambda tx: tx.run("session_wake", id=row.id, due=1, since=1))
    seats, served = active(gateway("beta")), Served()
    looking = asyncio.create_task(seats.run(LedgerAccess(store, Hub()), served, "lease"))
    await asyncio.sleep(0.5)
    entries, _ = store.read_sync(views.read_entries, row.id, 0, 10)
    (notice,) = [entry for entry in entries if entry.get("kind") == rows.AWAY_KIND]
    assert "waits for the gateway gone" in notice["text"] and not served.sessions
    told = store.read_sync(rows.find_session_row, "bound")
    assert told is not None and told.away is not None
    store.write_sync(rows.take_seat, told, rows.SeatRule("gone", lambda *_: "gone"))  # it is back, and begins a turn
    again = store.read_sync(rows.find_session_row, "bound")
    assert again is not None and again.away is None, "people are told of the next time, too"
    looking.cancel()


async def test_a_gateway_looks_at_the_rows_without_a_hint_and_after_a_gap(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_INTERVAL_S", 0.02)
    mine, free = session(store, "mine", seat="alpha"), session(store, "free")
    other = session(store, "theirs", seat="beta")
    for row in (mine, free, other):
        store.write_sync(lambda tx, id=row.id: tx.run("session_wake", id=id, due=1, since=1))
    seats, served, hub = active(gateway("beta"), agents=0), Served(), Hub()
    looking = asyncio.create_task(seats.run(LedgerAccess(store, hub), served, "lease"))
    await asyncio.sleep(0.3)
    assert {mine.id, free.id} <= set(served.sessions) and other.id not in served.sessions
    watcher = hub.join(mine.id)
    assert isinstance(seats.hints, Hints)
    seats.hints.receive(Hint("beta", is_gap=True))
    seats.hints.receive(Hint("beta", woken=frozenset({other.id})))
    await asyncio.sleep(0.05)
    assert watcher.lagged and other.id in served.sessions
    looking.cancel()


def test_who_waits_for_a_gateway_that_is_gone_is_named_unless_its_session_moves(store: Store) -> None:
    for key, seat, memory in (
        ("one", "beta", True),
        ("two", "beta", True),
        ("here", "alpha", True),
        ("free", "beta", False),
    ):
        row = session(store, key, seat=seat, memory=memory)
        store.write_sync(lambda tx, row=row: tx.run("session_wake", id=row.id, due=tx.now, since=tx.now))
    missing = store.read_sync(rows.list_missing_gateways, {"alpha"}, frozenset())
    assert missing == [rows.MissingGateway("beta", 2, ("two", "one"))]
    assert missing[0].describe() == (
        "2 sessions wait for the gateway beta, which is gone and on whose machine their agents work (two, one). "
        "They go on once it is back"
    )
    assert store.read_sync(rows.list_missing_gateways, {"alpha", "beta"}, frozenset()) == []
    assert store.read_sync(rows.list_missing_gateways, {"alpha"}, {"agent"}) == []


async def test_whoever_waits_for_a_gateway_is_told_when_it_is_given_up_also_if_it_starts_again() -> None:
    lives = Lives()
    beta = gateway("beta")
    given_up = lives.watch(beta)
    lives.note_living([gateway("alpha"), beta])
    assert not given_up.is_set() and lives.watch(beta) is given_up
    lives.note_living([gateway("alpha"), replace(beta, joined=7)])
    assert given_up.is_set()
