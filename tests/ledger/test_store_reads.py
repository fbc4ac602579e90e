"""Reads: one snapshot each, with every commit before it, beside a writer that does not wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proof.machines.engines import open_ledger, open_threaded_ledger
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.errors import LedgerReadOnly
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import LedgerStore

BOUND = 20.0


def note(tx: Tx, source: str, value: str = "x") -> int:
    return tx.count_changed("cursor_set", source=source, value=value, at=tx.now)


def noted(tx: Tx, source: str) -> Any:
    return tx.value(str, "cursor_get", source=source)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LedgerStore]:
    with open_threaded_ledger(tmp_path) as store:
        yield store


async def test_a_read_sees_every_commit_before_it(store: LedgerStore) -> None:
    for n in range(200):
        await store.write(note, "counter", str(n))
        assert await store.read(noted, "counter") == str(n)


async def test_a_read_is_one_snapshot_and_nobody_waits_for_it(store: LedgerStore) -> None:
    await store.write(note, "a", "old")
    entered, opened = threading.Event(), threading.Event()

    def twice(tx: Tx) -> tuple[str, str]:
        before = noted(tx, "a")
        entered.set()
        assert opened.wait(BOUND)
        return before, noted(tx, "a")

    reading = asyncio.create_task(store.read(twice))
    assert await asyncio.to_thread(entered.wait, BOUND)
    await store.write(note, "a", "new")
    assert await store.read(noted, "a") == "new"
    opened.set()
    assert await reading == ("old", "old")


async def test_a_read_changes_nothing_and_publishes_nothing(store: LedgerStore) -> None:
    with pytest.raises(LedgerReadOnly):
        await store.read(note, "a")
    with pytest.raises(TypeError, match="only reads"):
        await store.read(lambda tx: tx.after_commit(lambda: None))
    assert await store.read(noted, "a") is None


async def test_an_error_in_a_read_goes_to_its_caller_only(store: LedgerStore) -> None:
    with pytest.raises(LookupError, match="no query is named 'nonsense'"):
        await store.read(lambda tx: tx.all(SessionRow, "nonsense"))
    assert await asyncio.gather(*(store.read(noted, "a") for _ in range(10))) == [None] * 10


async def test_rows_have_the_class_that_they_are_read_as(store: LedgerStore) -> None:
    await store.write(lambda tx: tx.run("session_add", key="k", agent="main", home=None, at=5))
    row = await store.read(lambda tx: tx.one(SessionRow, "session_by_key", key="k"))
    assert row is not None
    assert (row.key, row.agent, row.home, row.at) == ("k", "main", None, 5)
    rows = await store.read(lambda tx: tx.all(SessionRow, "session_by_key", key="k"))
    assert rows == [row]
    with pytest.raises(AssertionError, match="session_by_key has no row"):
        await store.read(lambda tx: tx.get(SessionRow, "session_by_key", key="nobody"))


async def test_parameters_must_fit_the_query(store: LedgerStore) -> None:
    with pytest.raises(TypeError, match=r"query cursor_set in \w+\.sql lacks at, value"):
        await store.write(lambda tx: tx.run("cursor_set", source="a"))
    with pytest.raises(TypeError, match="is given sauce, which it does not take"):
        await store.write(lambda tx: tx.value(str, "cursor_get", source="a", sauce="b"))
    with pytest.raises(TypeError, match="lacks source and is given sauce"):
        await store.write(lambda tx: tx.value(str, "cursor_get", sauce="b"))


def test_a_store_without_threads_runs_the_same_transactions(tmp_path: Path) -> None:
    seen: list[str] = []

    def change(tx: Tx) -> int:
        tx.after_commit(lambda: seen.append("published"))
        return note(tx, "a")

    for store in (Store.open_sync(tmp_path / "ledger.db"), open_ledger()):
        with store:
            assert store.write_sync(change) == 1
            assert store.read_sync(noted, "a") == "x"
            with pytest.raises(ValueError, match="no"):
                store.write_sync(raises, "b")
            assert store.read_sync(noted, "b") is None
            with contextlib.suppress(LedgerReadOnly):  # with one connection, SQLite undoes it instead
                store.read_sync(note, "c")
            assert store.read_sync(noted, "c") is None
    assert seen == ["published", "published"]


def raises(tx: Tx, source: str) -> None:
    note(tx, source)
    raise ValueError("no")
