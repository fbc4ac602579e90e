"""Transactions that wait at the same moment share one on PostgreSQL, and none of them notices."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proof.machines.engines import empty_database
from proof.postgres_server import needs_postgres
from semel.law.limits import Limits
from semel.ledger.admin import books
from semel.ledger.delivery.claims import Caller
from semel.ledger.inbound import hear
from semel.ledger.storage.rows import EntryRow, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import LedgerStore
from semel.ledger.storage.work import WorkItem
from semel.ledger.transcript import entries
from semel.ledger.turns import finish_turn, limits, show, turn_ops, turns

pytestmark = needs_postgres
BOUND_S = 60


def say(tx: Tx, session: str, text: str) -> str:
    event = hear.Event("api", None, "message", text, text.encode())  # without a key: a second time would be heard
    hear.hear(tx, event, [hear.Addressee(session, "main", f"web:{session}")])
    return text


def say_and_fail(tx: Tx, session: str, text: str) -> None:
    say(tx, session, text)
    raise ValueError(text)


def refuse(tx: Tx, session: str, text: str) -> None:
    raise turns.Fenced(text)


def say_and_lock(tx: Tx, session: str, text: str) -> str:
    tx.lock("ledger_lock")
    return say(tx, session, text)


def say_elsewhere(tx: Tx, session: str, text: str) -> None:
    """Say something in a session that is not locked."""
    say(tx, "s0", text)


def hold(tx: Tx, entered: threading.Event, opened: threading.Event) -> None:
    entered.set()
    assert opened.wait(BOUND_S)


@pytest.fixture(autouse=True)
def locked(monkeypatch: pytest.MonkeyPatch) -> None:
    from semel.ledger.postgres import locks

    for fn in (say, say_and_fail, refuse, say_and_lock, say_elsewhere):
        monkeypatch.setitem(locks.LOCKS, fn, lambda session, text: locks.Locks(keys=(session,)))
    monkeypatch.setitem(locks.LOCKS, hold, lambda *_: locks.Locks())


@pytest.fixture
def store() -> Iterator[Any]:
    from semel.ledger.postgres.store import PostgresStore

    with PostgresStore.open_sync(empty_database()) as store:
        yield store
        assert [book for book in store.read_sync(books.audit) if not book.ok] == []


def write(store: Any, *calls: tuple[Callable[..., Any], str, str]) -> list[Any]:
    """Hand the calls to the worker at once. Return their results, or errors, and how many transactions it committed."""
    jobs = [WorkItem(fn, (session, text), {}, None) for fn, session, text in calls]
    before = store._worker.counts["commits"]
    store._worker.write(jobs)
    return [*(job.error or job.result for job in jobs), store._worker.counts["commits"] - before]


def texts(store: LedgerStore) -> Counter[str]:
    def read(tx: Tx) -> Counter[str]:
        sessions = tx.values(int, "sessions_page", after=0, limit=100)
        rows = [row for s in sessions for row in tx.dicts("entries_after", session=s, after=0, limit=100)]
        return Counter(row["text"] for row in rows)

    return store.read_sync(read)


def test_what_sessions_record_at_one_moment_is_one_commit(store: Any) -> None:
    assert write(store, *((say, f"s{n % 4}", f"t{n}") for n in range(8))) == [*(f"t{n}" for n in range(8)), 1]
    assert texts(store) == Counter(f"t{n}" for n in range(8))
    assert store.statistics()["transactions"] == 8


def test_what_is_refused_before_it_writes_leaves_its_neighbours_in_one_commit(store: Any) -> None:
    first, refused, last, commits = write(store, (say, "s1", "a"), (refuse, "s2", "b"), (say, "s3", "c"))
    assert (first, last, commits) == ("a", "c", 1)
    assert isinstance(refused, turns.Fenced)
    assert texts(store) == Counter(["a", "c"])


def test_what_fails_after_it_wrote_undoes_itself_and_nothing_else(store: Any) -> None:
    first, failed, last, commits = write(store, (say, "s1", "a"), (say_and_fail, "s2", "b"), (say, "s2", "c"))
    assert (first, last, commits) == ("a", "c", 2)
    assert isinstance(failed, ValueError)
    assert texts(store) == Counter(["a", "c"])


def test_what_locks_more_rows_shares_its_transaction_with_no_other(store: Any) -> None:
    assert write(store, (say, "s1", "a"), (say_and_lock, "s2", "b"), (say, "s3", "c")) == ["a", "b", "c", 3]
    assert texts(store) == Counter(["a", "b", "c"])
    assert store.statistics()["retries"] == 0


def test_what_meets_a_session_that_it_did_not_lock_fails_alone(store: Any) -> None:
    write(store, (say, "s0", "first"))
    first, failed, last, _ = write(store, (say, "s1", "a"), (say_elsewhere, "s2", "b"), (say, "s3", "c"))
    assert (first, last) == ("a", "c")
    assert "is not held" in str(failed)  # in tests; else it runs again with wider locks
    assert texts(store) == Counter(["first", "a", "c"])


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_shared_commit_whose_answer_is_lost_happened_once(
    store: Any, is_committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres.wire import Connection, ConnectionLost

    end = Connection.end

    def cut(self: Connection, command: str) -> None:
        if command == "COMMIT":
            monkeypatch.setattr(Connection, "end", end)
            if is_committed:
                end(self, command)
            self.close()
            raise ConnectionLost("the connection was cut")
        end(self, command)

    write(store, (say, "s0", "first"))
    monkeypatch.setattr(Connection, "end", cut)
    assert write(store, (say, "s1", "a"), (say, "s2", "b"))[:2] == ["a", "b"]
    assert texts(store) == Counter(["first", "a", "b"])


def test_what_waits_for_a_server_that_is_gone_is_refused_together(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from semel.ledger.postgres import worker
    from semel.ledger.postgres.errors import DatabaseUnreachable
    from semel.ledger.postgres.wire import ConnectionLost

    tries: list[float] = []

    def refuse_connection(*_: object) -> None:
        tries.append(time.monotonic())
        raise ConnectionLost("the server is gone")

    write(store, (say, "s0", "first"))
    with monkeypatch.context() as gone:
        gone.setattr(worker, "Connection", refuse_connection)
        gone.setattr(worker, "RECONNECT_S", 0.5)
        store._worker._connection.close()
        *refused, _ = write(store, *((say, f"s{n}", "lost") for n in range(20)))
    assert all(isinstance(error, DatabaseUnreachable) for error in refused)
    assert tries[-1] - tries[0] < 20 * 0.5
    assert write(store, (say, "s1", "a"), (say, "s2", "b"))[:2] == ["a", "b"]
    assert texts(store) == Counter(["first", "a", "b"])


def test_texts_that_stream_at_one_moment_take_one_statement_for_each_table(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres.wire import Connection

    def stream(*pieces: str) -> None:
        jobs = [
            WorkItem(show.show, (fence, caller, [turn_ops.Preview(1, piece)], slots[fence.session]), {}, None)
            for piece in pieces
            for fence, caller in turns_begun
        ]
        store._worker.write(jobs)
        for job in jobs:
            slots[job.args[0].session] = job.finish_in_thread()

    begun: list[turns.BegunTurn] = []
    start = hear.IdleStart("g0", lambda _: True, lambda _: None, begun.append)
    for n in range(3):
        event = hear.Event("api", None, "message", "hi", b"hi")
        store.write_sync(hear.hear, event, [hear.Addressee(f"s{n}", "main", f"web:s{n}")], None, start)
    turns_begun = [
        (turns.TurnFence(turn.session, turn.turn, turn.epoch), Caller(turn.session, turn.key, turn.turn, turn.root))
        for turn in begun
    ]
    slots = {turn.session: turn_ops.Slots() for turn in begun}
    stream("It")
    sent, send = Counter[str](), Connection.send
    with monkeypatch.context() as counted:
        counted.setattr(
            Connection, "send", lambda self, of, params: (sent.update([of.name]), send(self, of, params))[1]
        )
        stream(' is "\\0"', ", {green}")
    assert sent["piece_add_many"] == sent["entry_grew_many"] == sent["session_save_many"] == 1
    for session, slot in slots.items():
        assert store.read_sync(entries.shown_text, session, slot.entries[1]) == 'It is "\\0", {green}'
        (row,) = store.read_sync(lambda tx, s=session: tx.all(SessionRow, "session_by_id", id=s))
        shown = store.read_sync(
            lambda tx, s=session, q=slot.entries[1]: tx.get(EntryRow, "entry_get", session=s, seq=q)
        )
        assert shown.rev == row.rev
    for fence, caller in turns_begun:  # what is looked at in the same transaction is there
        ops = [turn_ops.Preview(1, "!"), turn_ops.Replace(1, "No."), turn_ops.Preview(1, " Wait.")]
        store.write_sync(show.show, fence, caller, ops, slots[fence.session])
        assert store.read_sync(entries.shown_text, fence.session, slots[fence.session].entries[1]) == "No. Wait."


def test_what_was_asked_for_is_there_once_something_is_read_and_fails_with_what_failed_before_it(store: Any) -> None:
    from semel.ledger.postgres.statements import Statement
    from semel.ledger.postgres.wire import ServerError

    connection, one = store._worker._require_connection(), Statement("one", "SELECT 1")
    connection.queue("BEGIN")
    before, read = connection.trips, connection.ask(one, {})
    assert connection.execute("SELECT 2") == [[2]]
    assert (read(), read(), connection.trips - before) == ([[1]], [[1]], 1)
    connection.queue("SELECT 1 / 0")
    read = connection.ask(one, {})
    with pytest.raises(ServerError, match="division by zero"):
        read()
    with pytest.raises(ServerError, match="before this one"):
        read()
    connection.end("ROLLBACK")


def start_turns(store: Any, policy: limits.LimitPolicy | None, *askers: tuple[str, str]) -> list[turns.BegunTurn]:
    """Let people write to their sessions at one moment. Return the turns that begin."""
    begun: list[turns.BegunTurn] = []
    start = hear.IdleStart("g0", lambda _: True, lambda _: None, begun.append, policy)
    jobs = []
    for person, session in askers:
        more = {"data": {"from": {"person": person, "id": person, "role": "member"}}}
        event = hear.Event("channel:chat", None, "message", "hi", b"hi", sender=person, more=more)
        jobs.append(WorkItem(hear.hear, (event, [hear.Addressee(session, "main", None)], None, start), {}, None))
    store._worker.write(jobs)
    for job in jobs:
        job.finish_in_thread()
    return begun


def end_turns(store: Any, policy: limits.LimitPolicy, begun: list[turns.BegunTurn]) -> None:
    jobs = []
    for turn in begun:
        fence = turns.TurnFence(turn.session, turn.turn, turn.epoch)
        caller = Caller(turn.session, turn.key, turn.turn, turn.root)
        end = finish_turn.End("answered", "end_turn", usage=limits.UsageReport(tokens=10, policy=policy))
        jobs.append(WorkItem(finish_turn.finish, (fence, caller, [], turn_ops.Slots(), end), {}, None))
    store._worker.write(jobs)
    for job in jobs:
        job.finish_in_thread()


@pytest.mark.parametrize("is_limited", [False, True])
def test_what_turns_of_one_moment_use_is_counted_for_each_person_and_session(store: Any, is_limited: bool) -> None:
    policy = limits.LimitPolicy(person=Limits(turns=100)) if is_limited else limits.LimitPolicy()
    before = store._worker.counts["commits"]
    begun = start_turns(store, policy, ("ben", "s1"), ("ann", "s2"), ("ben", "s3"))
    end_turns(store, policy, begun)
    assert store._worker.counts["commits"] - before == (6 if is_limited else 2)  # limits are judged one after the other
    spent = store.read_sync(limits.list_spent, policy.find_day(store.now())[0], ("", ""), 10)
    assert {(row.scope, row.subject): (row.turns, row.tokens) for row in spent} == {
        ("all", ""): (3, 30), ("person", "ann"): (1, 10), ("person", "ben"): (2, 20),
        ("session", "s1"): (1, 10), ("session", "s2"): (1, 10), ("session", "s3"): (1, 10),
    }  # fmt: skip


async def test_what_is_queued_while_a_worker_commits_shares_its_next_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from semel.ledger.postgres.store import PostgresStore

    monkeypatch.setattr("semel.ledger.postgres.store.hash", lambda lane: 0, raising=False)
    entered, opened = threading.Event(), threading.Event()
    with PostgresStore.open(empty_database()) as store:
        gate = asyncio.create_task(store.write(hold, entered, opened))
        assert await asyncio.to_thread(entered.wait, BOUND_S)
        tasks = [asyncio.create_task(store.write(say, f"s{n}", f"t{n}")) for n in range(5)]
        await asyncio.sleep(0)
        opened.set()
        assert await asyncio.gather(gate, *tasks) == [None, *(f"t{n}" for n in range(5))]
        assert store.statistics()["commits"] == 1
