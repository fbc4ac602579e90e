"""Group commit: many transactions share one sync of the disk, and none of them notices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from proof.machines.engines import open_threaded_ledger
from semel.ledger.sqlite import threads
from semel.ledger.storage.errors import LedgerClosed, LedgerFailed
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import LedgerStore

BOUND = 20.0  # seconds a test may wait for what must come


def note(tx: Tx, source: str, value: str = "x") -> int:
    return tx.count_changed("cursor_set", source=source, value=value, at=tx.now)


def noted(tx: Tx, source: str) -> Any:
    return tx.value(str, "cursor_get", source=source)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LedgerStore]:
    with open_threaded_ledger(tmp_path) as store:
        yield store


class Gate:
    """A transaction that holds the writer until the test opens it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def hold(self, tx: Tx) -> None:
        self.entered.set()
        assert self.opened.wait(BOUND)


async def held(store: LedgerStore, gate: Gate) -> asyncio.Task[None]:
    task = asyncio.create_task(store.write(gate.hold))
    assert await asyncio.to_thread(gate.entered.wait, BOUND)
    return task


async def queue(*coroutines: Any) -> list[asyncio.Task[Any]]:
    """Start them all: when this returns, each has handed its job to the writer."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    await asyncio.sleep(0)
    return tasks


@pytest.mark.sqlite("group commit")
async def test_what_queued_while_the_last_commit_synced_shares_the_next_one(store: LedgerStore) -> None:
    gate = Gate()
    first = await held(store, gate)
    rest = await queue(*(store.write(note, f"s{n}") for n in range(40)))
    gate.opened.set()
    assert await asyncio.gather(first, *rest) == [None] + [1] * 40
    assert (store.statistics()["commits"], store.statistics()["transactions"]) == (2, 41)


@pytest.mark.sqlite("group commit")
async def test_a_batch_is_bounded_and_order_is_kept(store: LedgerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_BATCH_ITEMS", 16)
    gate, order = Gate(), list[int]()
    first = await held(store, gate)
    rest = await queue(*(store.write(lambda tx, n: order.append(n), n) for n in range(40)))
    gate.opened.set()
    await asyncio.gather(first, *rest)
    assert order == list(range(40))
    assert store.statistics()["commits"] == 4  # 1 + 16 + 16 + 8


@pytest.mark.sqlite("group commit")
async def test_a_transaction_that_fails_undoes_itself_and_nothing_else_of_its_batch(store: LedgerStore) -> None:
    def half(tx: Tx) -> None:
        note(tx, "half")
        raise ValueError("no")

    def twice(tx: Tx) -> None:
        tx.run("session_add", key="k", agent="a", home=None, at=1)
        tx.run("session_add", key="k", agent="a", home=None, at=1)

    gate = Gate()
    first = await held(store, gate)
    tasks = await queue(store.write(note, "before"), store.write(half), store.write(twice), store.write(note, "after"))
    gate.opened.set()
    await first
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert outcomes[0] == outcomes[3] == 1
    assert isinstance(outcomes[1], ValueError)
    assert isinstance(outcomes[2], apsw.ConstraintError)
    assert store.statistics()["commits"] == 2
    assert [await store.read(noted, source) for source in ("before", "half", "after")] == ["x", None, "x"]
    assert await store.read(lambda tx: tx.one(SessionRow, "session_by_key", key="k")) is None


async def test_a_transaction_alone_in_its_batch_that_fails_undoes_itself(store: LedgerStore) -> None:
    def half(tx: Tx) -> None:
        note(tx, "half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await store.write(half)
    await store.write(note, "next")
    assert [await store.read(noted, source) for source in ("half", "next")] == [None, "x"]


@pytest.mark.sqlite("group commit")
async def test_a_storage_fault_in_one_body_is_told_to_its_whole_batch_and_leaves_nothing_open(
    store: LedgerStore,
) -> None:
    def gives_way(tx: Tx) -> None:
        note(tx, "lost")
        raise apsw.IOError("the disk did not answer")

    gate = Gate()
    first = await held(store, gate)
    tasks = await queue(store.write(note, "before"), store.write(gives_way), store.write(note, "after"))
    gate.opened.set()
    await first
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [LedgerFailed] * 3
    with pytest.raises(LedgerFailed, match="the disk did not answer"):
        await store.write(gives_way)
    assert await store.write(note, "next") == 1
    assert [await store.read(noted, s) for s in ("before", "lost", "after", "next")] == [None, None, None, "x"]


async def test_publishing_comes_after_the_commit_before_the_callers_go_on_in_order(store: LedgerStore) -> None:
    seen: list[str] = []
    loop = threading.current_thread()

    def change(tx: Tx, name: str) -> None:
        note(tx, name)

        def publish() -> None:
            assert threading.current_thread() is loop
            assert store.read_sync(noted, name) == "x"  # another connection sees it: it is committed
            seen.append(f"published {name}")

        tx.after_commit(publish)

    async def call(name: str) -> None:
        await store.write(change, name)
        seen.append(f"answered {name}")

    gate = Gate()
    first = await held(store, gate)
    tasks = await queue(call("a"), call("b"))
    gate.opened.set()
    await asyncio.gather(first, *tasks)
    assert [line for line in seen if line.startswith("published")] == ["published a", "published b"]
    assert seen.index("published a") < seen.index("answered a")
    assert seen.index("published b") < seen.index("answered b")


async def test_a_transaction_that_failed_publishes_nothing(store: LedgerStore) -> None:
    seen: list[str] = []

    def change(tx: Tx) -> None:
        tx.after_commit(lambda: seen.append("never"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await store.write(change)
    await store.write(note, "next")
    assert seen == []


async def test_a_publisher_that_fails_harms_no_caller(store: LedgerStore) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))

    def change(tx: Tx) -> str:
        tx.after_commit(lambda: 1 / 0)
        return "done"

    assert await store.write(change) == "done"
    assert isinstance(told[0]["exception"], ZeroDivisionError)


async def test_a_write_happens_even_if_its_caller_was_cancelled(store: LedgerStore) -> None:
    gate = Gate()
    first = await held(store, gate)
    (task,) = await queue(store.write(note, "left alone"))
    task.cancel()
    gate.opened.set()
    await first
    assert (await asyncio.gather(task, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    await store.write(note, "next")
    assert await store.read(noted, "left alone") == "x"


async def test_closing_finishes_what_was_submitted_and_refuses_what_comes_later(tmp_path: Path) -> None:
    store, gate = open_threaded_ledger(tmp_path), Gate()
    first = await held(store, gate)
    tasks = await queue(*(store.write(note, f"s{n}") for n in range(5)))
    closing = asyncio.create_task(asyncio.to_thread(store.close))
    gate.opened.set()
    await asyncio.gather(first, *tasks, closing)
    for late in (store.write(note, "late"), store.read(noted, "s0")):
        with pytest.raises(LedgerClosed, match="the gateway is stopping"):
            await late
    assert not (tmp_path / "ledger.db-wal").exists()  # moved into the file
    with open_threaded_ledger(tmp_path, again=True) as again:
        assert [await again.read(noted, f"s{n}") for n in range(5)] == ["x"] * 5


def test_event_loops_in_several_threads_share_one_writer(store: LedgerStore) -> None:
    async def clients(name: int) -> list[int]:
        return await asyncio.gather(*(store.write(note, f"{name}.{n}") for n in range(20)))

    results: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda name=name: results.append(asyncio.run(clients(name)))) for name in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert results == [[1] * 20] * 3
    assert store.write_sync(note, "from no loop at all") == 1


async def test_a_coroutine_is_no_transaction(store: LedgerStore) -> None:
    async def waits(tx: Tx) -> None:
        note(tx, "never")

    with pytest.raises(TypeError, match="a transaction is a plain function"):
        _ = await store.write(waits)
    assert await store.read(noted, "never") is None


async def test_a_transaction_kept_after_its_end_runs_nothing(store: LedgerStore) -> None:
    kept: list[Tx] = []
    await store.write(kept.append)
    with pytest.raises(RuntimeError, match="has ended"):
        note(kept[0], "late")


async def test_a_transaction_inside_a_transaction_is_refused_instead_of_waiting_for_itself(store: LedgerStore) -> None:
    with pytest.raises(RuntimeError, match="it would wait for itself"):
        await store.write(nested, store)


def nested(tx: Tx, store: LedgerStore) -> int:
    return store.write_sync(note, "inner")


async def test_time_stands_still_inside_a_transaction_and_is_the_stores(tmp_path: Path) -> None:
    times = iter(range(1000, 2000))
    with open_threaded_ledger(tmp_path, clock=lambda: next(times)) as store:
        first = await store.write(lambda tx: (tx.now, tx.now))
        second = await store.write(lambda tx: (tx.now, tx.now))
    assert first[0] == first[1] < second[0] == second[1]


@pytest.mark.sqlite("its write-ahead log")
async def test_the_log_is_moved_into_the_file_when_nothing_happens(store: LedgerStore) -> None:
    await store.write(note, "a", "x" * 100_000)
    assert store.statistics()["backlog_pages"] > 0
    async with asyncio.timeout(BOUND):
        while store.statistics()["backlog_pages"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await store.read(noted, "a") == "x" * 100_000


@pytest.mark.sqlite("its write-ahead log")
async def test_the_log_stays_bounded_under_work_that_never_pauses(
    store: LedgerStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MAX_BACKLOG_PAGES", 64)
    monkeypatch.setattr(threads, "IDLE_BEFORE_CHECKPOINT_S", 1000.0)
    log = tmp_path / "ledger.db-wal"
    made = log.stat().st_size  # by what makes a ledger: it is written over, and never gets shorter
    for n in range(100):
        await store.write(note, f"s{n % 3}", f"{n:05}" * 8_000)  # 10 pages, new ones each time
    assert log.stat().st_size <= max(made, 4096 * (64 + 6 * 16))  # of 100 such writes: 1,000 pages and more
