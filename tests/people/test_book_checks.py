"""The books run by themselves: once a day and after a kill; owners are told of a broken law, once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_world import PATIENCE, World, until
from people_world import BOB, Chat

from semel.gateway.api import book_checks
from semel.gateway.api.book_checks import INTERVAL_MS, BookChecks, LastCheck, add_size, read_last_check
from semel.ledger.admin import books
from semel.ledger.sqlite.connect import connect
from semel.ledger.storage.sql import Tx


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book_checks, "MIN_PAUSE_S", 0.0)


@contextlib.contextmanager
def broken_law(world: World) -> Iterator[None]:
    """A ledger in which a finished turn has no end time, until the block ends."""
    change(world, "UPDATE turn SET ended = NULL")
    try:
        yield
    finally:
        change(world, "UPDATE turn SET ended = started")


def change(world: World, sql: str) -> None:
    db = connect(world.settings.ledger)
    db.execute(sql)
    db.close()


async def test_an_owner_is_told_of_a_broken_law_once_in_their_own_chat(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.tell("hello")
        await w.tell("hello", BOB, "bob's")
        await w.until_shown("hello")
        await w.until_shown("hello", "bob's")
        checks = w.gateway.book_checks
        assert (await checks.check()).broken == ()
        with broken_law(w):
            assert (await checks.check()).broken == ("turn_ended",)
            told = await w.until_shown("The books of this gateway found a law broken: turn_ended.")
            assert "semel doctor --laws" in told
            assert (await checks.check()).broken == ("turn_ended",)
            assert (await w.gateway.metrics())["semel_books_broken"] == 1
            assert (await w.gateway.overview())["books"]["broken"] == ("turn_ended",)
        assert (await checks.check()).broken == ()
        await w.sent()
        assert sum("law broken" in text for text in w.shown()) == 1
        assert not any("law broken" in text for text in w.shown("bob's"))
        assert (await w.gateway.metrics())["semel_books_broken"] == 0


async def test_without_a_chat_the_notice_is_on_the_page(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")
        with broken_law(w):
            await w.gateway.book_checks.check()
        [notice] = await w.texts("s", "notice")
        assert "found a law broken: turn_ended" in notice


async def test_the_result_has_the_numbers_and_survives_the_gateway(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")
        done = await w.gateway.book_checks.check()
    assert (done.laws, done.entries, done.broken) == (len(books.LAWS), 2, ())
    assert read_last_check(tmp_path) == done
    assert (tmp_path / "last-books.json").stat().st_mode & 0o077 == 0
    (tmp_path / "last-books.json").write_text("{")
    assert read_last_check(tmp_path) is None


def test_the_growth_of_the_data_is_known_after_half_a_day() -> None:
    day, sizes = INTERVAL_MS, add_size((), 0, 1_000)
    check = LastCheck(0, 0.1, 1, 0, sizes=sizes)
    assert check.measure_growth(day // 2 - 1, 2_000) is None
    assert check.measure_growth(day // 2, 2_000) == 2_000
    assert add_size(sizes, day // 3, 5_000) == sizes, "a check soon after the last one adds no size"
    for number in range(1, 20):
        sizes = add_size(sizes, number * day, 1_000 * number)
    assert [at // day for at, _ in sizes] == list(range(12, 20))
    assert LastCheck(0, 0.1, 1, 0, sizes=sizes).measure_growth(20 * day, 20_000) == 1_000
    assert LastCheck(0, 0.1, 1, 0).measure_growth(day, 1) is None


class DayClock:
    """A clock that stands still; each sleep is noted and takes no time, apart from those of more than a day."""

    def __init__(self) -> None:
        self.time = 1_800_000_000_000
        self.until: list[int] = []
        self.forever = asyncio.Event()

    def now(self) -> int:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += round(seconds * 1000)

    async def sleep_until(self, at: int) -> None:
        self.until.append(at)
        if len(self.until) == 3:
            await self.forever.wait()
        self.time = max(self.time, at)


@pytest.mark.parametrize("after_crash", [False, True])
async def test_the_books_run_daily_and_at_once_after_a_kill(tmp_path: Path, after_crash: bool) -> None:
    async with World(tmp_path) as w:
        clock = DayClock()
        last = {"at": clock.time - 1000, "seconds": 0.1, "laws": 1, "entries": 0, "broken": []}
        (tmp_path / "last-books.json").write_text(json.dumps(last))
        checks = BookChecks(w.gateway.record, tmp_path, clock, lambda: None, after_crash=after_crash)
        run = asyncio.create_task(checks.run())
        await until(lambda: is_true(len(clock.until) == 3))
        run.cancel()
    first = last["at"] if not after_crash else 1_800_000_000_000 + round(book_checks.START_DELAY_S * 1000)
    assert clock.until == [first + INTERVAL_MS * day for day in (1, 2, 3)]


async def is_true(value: bool) -> bool:
    return value


async def test_a_ledger_that_a_kill_left_behind_is_known(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        assert w.gateway.book_checks.after_crash is False, "a new ledger was not left by anybody"
        await w.ask("hello")
        copy = tmp_path / "killed"
        copy.mkdir()
        for file in ("ledger.db", "ledger.db-wal"):  # the files as a kill leaves them
            (copy / file).write_bytes((tmp_path / file).read_bytes())
    async with World(copy) as w:
        assert w.gateway.book_checks.after_crash is True
    async with World(copy) as w:
        assert w.gateway.book_checks.after_crash is False


async def test_a_long_check_keeps_neither_writers_nor_readers_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on = threading.Event(), threading.Event()

    def read_slowly(tx: Tx, name: str) -> books.BookCheck:
        reading.set()
        assert go_on.wait(PATIENCE)
        return books.BookCheck(name, "", "", ())

    async with World(tmp_path) as w:
        with monkeypatch.context() as patch:
            patch.setattr(books, "run_book", read_slowly)
            check = asyncio.create_task(w.gateway.book_checks.check())
            assert await asyncio.to_thread(reading.wait, PATIENCE)
            assert await w.ask("hello")
            assert not check.done()
            go_on.set()
            await check
