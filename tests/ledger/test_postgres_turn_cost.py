"""What a simple turn costs on PostgreSQL: its statements, and how often the gateway waits for the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from proof.machines.engines import empty_database
from proof.postgres_server import needs_postgres
from semel.gateway.record import Hub, LedgerAccess
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.inbound import hear
from semel.ledger.transcript import session_list, views
from semel.ledger.turns import finish_turn, limits, show, spawns, turn_ops, turns

pytestmark = needs_postgres

MAX_STATEMENTS = 23  # the bar is 24
MAX_TRIPS = 8  # the bar is 12
MAX_STATEMENTS_STREAMED = 32
MAX_TRIPS_STREAMED = 10
CHANGES = 5  # that a watcher gets of a simple turn: the message and the session, then the answer and both again
WATCHED_TRIPS = 2  # one for the changes of each transaction
LIMITS = limits.LimitPolicy()  # none, as in a gateway that configures none: use is counted all the same
HOME = "web:s"


@dataclass
class Trace:
    """The statements of each transaction, by name. `trips`: those whose result the gateway waited for."""

    transactions: dict[str, list[str]] = field(default_factory=dict)
    trips: list[str] = field(default_factory=list)
    running: str = "before"

    def note(self, name: str) -> None:
        if name != "note_held":  # of the tests' sanitizer
            self.transactions.setdefault(self.running, []).append(name)

    def note_trip(self) -> None:
        names = self.transactions[self.running]
        self.trips.append(names[-1])
        names[-1] += " <"

    @property
    def statements(self) -> int:
        return sum(map(len, self.transactions.values()))

    def __str__(self) -> str:
        lines = [f"{self.statements} statements, {len(self.trips)} round trips ('<': waited for)"]
        for name, statements in self.transactions.items():
            lines += [f"{name}: {len(statements)}", *(f"    {statement}" for statement in statements)]
        return "\n".join(lines)


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    """A trace of what every connection sends."""
    from semel.ledger.postgres.wire import Connection

    trace = Trace()

    def before(method: str, note: Callable[..., None]) -> None:
        original = getattr(Connection, method)

        def traced(self: Any, *args: Any, **kwargs: Any) -> Any:
            note(*args)
            return original(self, *args, **kwargs)

        monkeypatch.setattr(Connection, method, traced)

    before("send", lambda statement, params: trace.note(statement.name))
    before("queue", trace.note)
    before("_collect", lambda *sync: trace.note_trip())
    return trace


@dataclass
class House:
    """A gateway's transactions on a store without threads, so that they can be counted."""

    access: LedgerAccess
    trace: Trace
    spawn: int | None = None
    session: int = 0
    begun: list[turns.BegunTurn] = field(default_factory=list)

    def do(self, name: str, body: Callable[..., Any], *args: Any) -> Any:
        self.trace.running = name
        return self.access.store.write_sync(self.access._run_and_publish, body, *args)

    def hear(self, key: str) -> turns.BegunTurn:
        event = hear.Event("channel:web", key, "message", "Is the build green?", key.encode())
        start = hear.IdleStart("g0", lambda _: True, lambda _: self.spawn, self.begun.append, LIMITS)
        self.do("hear and begin", hear.hear, event, [hear.Addressee("s", "main", HOME)], None, start)
        return self.begun.pop()

    def turn(self, key: str, *, streams: bool) -> None:
        """A message, the turn of an agent that runs already, one text, the end."""
        begun = self.hear(key)
        self.session = begun.session
        fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
        caller = Caller(begun.session, begun.key, begun.turn, begun.root)
        slots = turn_ops.Slots()
        if self.spawn is None:
            self.spawn = self.do("spawn", spawns.record_start, begun.session, "main", "g0", b"token")
            self.do("prompt", turns.record_prompting, fence, "start", self.spawn, "memory", {})
        if streams:
            slots = self.do("show", show.show, fence, caller, [turn_ops.Preview(1, "It is")], slots)
        block = turn_ops.Block(1, (ClaimRequest("block", "It is green.", HOME),))
        usage = limits.UsageReport(tokens=1000, policy=LIMITS)
        end = finish_turn.End("answered", "end_turn", closing=1, usage=usage)
        self.do("finish", finish_turn.finish, fence, caller, [block], slots, end)


@pytest.fixture
def house(trace: Trace) -> Iterator[House]:
    from semel.ledger.postgres.store import PostgresStore

    with PostgresStore.open_sync(empty_database()) as store:
        house = House(LedgerAccess(store, Hub()), trace)
        house.turn("first", streams=False)
        trace.transactions.clear()
        trace.trips.clear()
        yield house


def test_a_simple_turn_costs_few_statements_and_waits_rarely(house: House) -> None:
    house.turn("second", streams=False)
    print(house.trace)
    assert house.trace.statements <= MAX_STATEMENTS
    assert len(house.trace.trips) <= MAX_TRIPS


def test_a_message_that_waits_for_a_turn_is_accepted_in_two_round_trips(house: House) -> None:
    for key in ("second", "third"):
        house.trace.trips.clear()
        event = hear.Event("channel:web", key, "message", "Is the build green?", key.encode())
        house.do("hear", hear.hear, event, [hear.Addressee("s", "main", HOME)])
    print(house.trace)
    assert house.trace.trips == ["event_add", "COMMIT"]


def test_a_turn_that_somebody_watches_costs_a_read_for_each_change(house: House) -> None:
    house.access.hub.join(house.session)
    house.turn("second", streams=False)
    print(house.trace)
    assert house.trace.statements <= MAX_STATEMENTS + CHANGES
    assert len(house.trace.trips) <= MAX_TRIPS + WATCHED_TRIPS


def test_a_page_of_entries_or_sessions_is_read_in_a_few_round_trips_however_long_it_is(house: House) -> None:
    for number in range(10):
        house.turn(f"turn {number}", streams=False)
        other = [hear.Addressee(f"s{number}", "main", None)]
        house.do("hear", hear.hear, hear.Event("api", f"k{number}", "message", "hi", b"hi"), other)
    for read, args, expected in ((views.read_snapshot, (house.session,), 22), (session_list.list_sessions, (), 11)):
        house.trace.trips.clear()
        house.trace.running = read.__name__
        found = house.access.store.read_sync(read, *args)
        assert len(found["entries"] if isinstance(found, dict) else found) == expected
        assert len(house.trace.trips) <= 8


def test_a_text_that_is_shown_while_it_streams_costs_one_more_transaction(house: House) -> None:
    house.turn("second", streams=True)
    print(house.trace)
    assert house.trace.statements <= MAX_STATEMENTS_STREAMED
    assert len(house.trace.trips) <= MAX_TRIPS_STREAMED


def test_no_step_of_a_turn_reads_a_whole_table_also_while_the_server_has_counted_no_rows(trace: Trace) -> None:
    import psycopg

    from semel.ledger.postgres.store import PostgresStore

    url = empty_database()
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_stat_reset()")  # other tests have used the database
    with PostgresStore.open_sync(url) as store:
        house = House(LedgerAccess(store, Hub()), trace)
        for number in range(10):
            house.turn(f"turn {number}", streams=bool(number % 2))
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE seq_tup_read > 9")
        assert dict(found.fetchall()).keys() <= {"session", "entry"}, "these are read by the tests' own sanitizer"
