"""Transactions at once, and COMMITs whose answer is lost: what was accepted is there, and there once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from proof.machines.engines import empty_database
from proof.postgres_server import PostgresServer, needs_postgres, shared_server
from semel.ledger.admin import books
from semel.ledger.delivery.claims import Caller
from semel.ledger.inbound import hear
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import LedgerStore
from semel.ledger.turns import finish_turn, turn_ops, turns

pytestmark = needs_postgres
BOUND_S = 60
END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'semel'"


@pytest.fixture
def url() -> str:
    return empty_database()


def open_store(url: str, *, exclusive: bool = True) -> LedgerStore:
    from semel.ledger.postgres.store import PostgresStore

    return PostgresStore.open(url, exclusive=exclusive)


def event(text: str, key: str | None = None) -> hear.Event:
    return hear.Event("api", key, "message", text, text.encode())


def to(*keys: str) -> list[hear.Addressee]:
    return [hear.Addressee(key, "main", f"web:{key}") for key in keys]


def texts(tx: Tx) -> Counter[str]:
    return Counter(row["text"] for row in all_entries(tx))


def all_entries(tx: Tx) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for session in tx.values(int, "sessions_page", after=0, limit=100):
        found += tx.dicts("entries_after", session=session, after=0, limit=1 << 30)
    return found


def balanced(store: LedgerStore) -> None:
    assert [book for book in store.read_sync(books.audit) if not book.ok] == []


# ---------------------------------------------------------------- at once


async def test_events_that_come_at_once_are_heard_once_each_and_in_one_order(url: str) -> None:
    with open_store(url) as store:
        await asyncio.gather(*(store.write(hear.hear, event(f"e{n}", f"k{n % 40}"), to("s")) for n in range(80)))
        heard = await store.read(texts)
        assert sum(heard.values()) == 40  # one of each two with the same key
        balanced(store)


async def test_a_session_that_two_gateways_create_at_once_is_one_session(url: str) -> None:
    with open_store(url) as one, open_store(url, exclusive=False) as other:
        for n in range(10):
            both = [one.write(hear.hear, event("a"), to(f"s{n}")), other.write(hear.hear, event("b"), to(f"s{n}"))]
            assert [done.status for done in await asyncio.gather(*both)] == ["accepted", "accepted"]
        balanced(one)


async def test_results_of_one_session_are_delivered_in_the_order_of_their_revs(url: str) -> None:
    published: list[int] = []

    def say(tx: Tx, n: int) -> None:
        hear.hear(tx, event(f"e{n}"), to("s"))
        rev = max(rev for rev, _ in tx.dirty.values())
        tx.after_commit(lambda: published.append(rev))

    with open_store(url) as store:
        await asyncio.gather(*(store.write(say, n) for n in range(60)))
    assert published == sorted(published)
    assert len(set(published)) == 60


def lock_in_turn(tx: Tx, first: str, second: str, barrier: threading.Barrier) -> None:
    tx.run("cursor_set", source=first, value="x", at=tx.now)
    tx.exists("cursor_get", source=first)  # the write travels
    try:
        barrier.wait(1.0)
    except threading.BrokenBarrierError:
        pass  # it is run again
    tx.run("cursor_set", source=second, value="x", at=tx.now)


async def test_a_deadlock_is_run_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from semel.ledger.postgres import locks

    monkeypatch.setitem(locks.LOCKS, lock_in_turn, lambda first, *_: locks.Locks(keys=(first,)))
    monkeypatch.setattr("semel.ledger.postgres.store.hash", lambda lane: int("b" in lane), raising=False)
    barrier = threading.Barrier(2)
    with open_store(url) as store:
        both = [store.write(lock_in_turn, "a", "b", barrier), store.write(lock_in_turn, "b", "a", barrier)]
        await asyncio.wait_for(asyncio.gather(*both), BOUND_S)
        assert store.statistics()["retries"] >= 1
        assert store.statistics()["failures"] == 0


async def test_a_transaction_that_is_undone_again_and_again_is_refused_in_words(url: str) -> None:
    from semel.ledger.postgres.errors import DatabaseBusy
    from semel.ledger.postgres.wire import ServerError

    def undone(tx: Tx) -> None:
        raise ServerError("40001", "could not serialize access")

    with open_store(url) as store:
        with pytest.raises(DatabaseBusy, match="got in the way 20 times"):
            await store.write(undone)
        assert (await store.write(hear.hear, event("after"), to("s"))).status == "accepted"


async def test_a_first_commit_that_is_refused_changes_no_result(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every transaction is run twice: a function changes nothing but the ledger."""
    from semel.ledger.postgres.wire import Connection, ServerError

    end, refused = Connection.end, Counter[str]()

    def refuse_first(self: Connection, command: str) -> None:
        refused[command] += 1
        if command == "COMMIT" and refused[command] % 2:
            end(self, "ROLLBACK")
            raise ServerError("40001", "could not serialize access")
        end(self, command)

    with open_store(url) as store:
        monkeypatch.setattr(Connection, "end", refuse_first)
        await one_turn(store)
        monkeypatch.undo()
        assert store.statistics()["retries"] > 3
        assert await store.read(texts) == Counter({"hi": 1, "hello": 1})
        balanced(store)


async def one_turn(store: LedgerStore) -> None:
    done = await store.write(hear.hear, event("hi"), to("s"))
    begun = await store.write(turns.begin, done.addressed[0].session, "lease")
    assert isinstance(begun, turns.BegunTurn)
    fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
    await store.write(turns.record_prompting, fence, "start", 0, "memory", {})
    from semel.ledger.delivery.claims import ClaimRequest

    block = turn_ops.Block(1, (ClaimRequest("block", "hello", "web:s"),))
    caller = Caller(begun.session, begun.key, begun.turn, begun.root)
    await store.write(
        finish_turn.finish, fence, caller, [block], turn_ops.Slots(), finish_turn.End("answered", "end_turn")
    )


# ---------------------------------------------------------------- answers that are lost


def cut(when: str, times: int) -> Any:
    """In place of `Connection.end`: the connection is cut at the first COMMITs, before or after they happen."""
    from semel.ledger.postgres.wire import Connection, ConnectionLost

    end, left = Connection.end, [times]

    def end_and_cut(self: Connection, command: str) -> None:
        if command != "COMMIT" or not left[0]:
            end(self, command)
            return
        left[0] -= 1
        if when == "after":
            end(self, command)
        self.close()
        raise ConnectionLost("the connection was cut")

    return end_and_cut


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_commit_whose_answer_is_lost_happened_once(
    url: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres.wire import Connection

    with open_store(url) as store:
        await store.write(hear.hear, event("first"), to("s"))
        monkeypatch.setattr(Connection, "end", cut(when, 1))
        done = await store.write(hear.hear, event("keyless"), to("s"))
        monkeypatch.undo()
        assert done.status == "accepted"
        assert await store.read(texts) == Counter({"first": 1, "keyless": 1})
        assert store.statistics()["lost_connections"] == 1
        balanced(store)


class Callers(threading.Thread):
    """A gateway that hears events without a key, as fast as they are accepted: no second hearing could fold one."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.accepted: list[str] = []
        self.refused: list[str] = []
        self.ending = threading.Event()

    def run(self) -> None:
        asyncio.run(self._call_all())

    async def _call_all(self) -> None:
        with open_store(self.url) as store:
            await asyncio.gather(*(self._call(store, caller) for caller in range(6)))

    async def _call(self, store: LedgerStore, caller: int) -> None:
        from semel.ledger.storage.errors import LedgerFailed

        number = 0
        while not self.ending.is_set():
            text, number = f"{caller}:{number}", number + 1
            try:
                await store.write(hear.hear, event(text), to("s" if caller < 3 else f"s{caller}"))
                self.accepted.append(text)
            except LedgerFailed:
                self.refused.append(text)


async def test_a_gateway_that_was_cut_off_from_the_server_writes_nothing_once_another_one_runs(url: str) -> None:
    from semel.ledger.postgres.errors import DatabaseInUse, DatabaseTakenOver

    with open_store(url) as first:
        await first.write(hear.hear, event("before"), to("s"))
        with pytest.raises(DatabaseInUse, match=r"belongs to a running gateway \(from this host, server process \d+"):
            open_store(url)
        assert (await first.write(hear.hear, event("still"), to("s"))).status == "accepted"
        shared_server().execute(END_CONNECTIONS)
        with open_store(url) as second:
            await second.write(hear.hear, event("second"), to("s"))
            for _ in range(2):
                with pytest.raises(DatabaseTakenOver, match="Stop this gateway"):
                    await first.write(hear.hear, event("zombie"), to("s"))
            assert await second.read(texts) == Counter({"before": 1, "still": 1, "second": 1})
            balanced(second)


async def test_a_gateway_that_connects_again_still_holds_the_database(url: str) -> None:
    from semel.ledger.postgres.errors import DatabaseInUse

    with open_store(url) as store:
        await store.write(hear.hear, event("before"), to("s"))
        shared_server().execute(END_CONNECTIONS)
        await store.write(hear.hear, event("after"), to("s"))
        with pytest.raises(DatabaseInUse):
            open_store(url)
        assert await store.read(texts) == Counter({"before": 1, "after": 1})


def heard(url: str) -> Counter[str]:
    with open_store(url) as store:
        balanced(store)
        return store.read_sync(texts)


def reach(callers: Callers, more: int) -> None:
    """Wait until so many more events are accepted."""
    wanted, deadline = len(callers.accepted) + more, time.monotonic() + BOUND_S
    while len(callers.accepted) < wanted:
        assert callers.is_alive()
        assert time.monotonic() < deadline, f"{len(callers.accepted)} accepted, {wanted} wanted"
        time.sleep(0.01)


def test_connections_that_the_server_ends_lose_nothing_and_repeat_nothing(url: str) -> None:
    callers = Callers(url)
    callers.start()
    for _ in range(10):
        reach(callers, 10)
        shared_server().execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'semel'"
        )
    reach(callers, 10)
    callers.ending.set()
    callers.join()
    assert heard(url) == Counter(callers.accepted)
    assert callers.refused == []


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.stop()


def test_a_server_that_is_killed_loses_nothing_and_repeats_nothing(server: PostgresServer) -> None:
    url = server.url(server.create_database())
    callers = Callers(url)
    callers.start()
    for _ in range(3):
        reach(callers, 10)
        server.kill()
        server.start()
    reach(callers, 10)
    callers.ending.set()
    callers.join()
    there = heard(url)
    assert there == Counter(callers.accepted), (there - Counter(callers.accepted), Counter(callers.accepted) - there)


def test_a_key_that_is_taken_is_found_again_also_after_other_attempts_and_never_for_ever(url: str) -> None:
    from semel.ledger.postgres.wire import ServerError

    states = ["40001", "40001", "23505"]  # two sessions were added meanwhile, and then a third one

    def meet_others(tx: Tx) -> str:
        if states:
            raise ServerError(states.pop(0), "others were faster")
        return "done"

    def break_a_rule(tx: Tx) -> None:
        raise ServerError("23505", "a mistake in the code")

    with open_store(url) as store:
        assert store.write_sync(meet_others) == "done"
        with pytest.raises(ServerError, match="a mistake in the code"):
            store.write_sync(break_a_rule)
