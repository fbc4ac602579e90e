"""Whole turns through the ledger, as the gateway runs them: hear and begin, finish; each commit waits for the disk.

First what one turn costs: commits, pages of the write-ahead log, statements and CPU time. These figures depend less on
what else the machine does than the rates that follow.

The reference writes the same bytes in two pieces to the same disk, syncing each, as the two commits of a turn do. "One
commit per turn" is a ledger without group commit: each turn's steps in one transaction, one turn after the other. The
slowed disk adds 2 ms to each commit, as a cloud volume does.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from bench.ledger_raw import overwrite_per_second
from semel.gateway.record import Hub, LedgerAccess
from semel.law.identity import digest_fields
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.inbound.hear import Addressee, Event, IdleStart, hear
from semel.ledger.sqlite.group_commit import Committer
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import LedgerStore
from semel.ledger.turns import finish_turn, limits, turn_ops, turns

SECONDS = 2.0
ROUNDS = 3
COMMITS = 2  # of a simple turn
COUNTED = {1: 400, 8: 800, 64: 1920}  # sessions at once -> turns whose cost is measured
FRAME_BYTES = 4096 + 24  # a page in the write-ahead log, with its header
LIMITS = limits.LimitPolicy()  # none, as in a gateway that configures none: use is counted all the same
TEXT = "Could you look at the failing build on the release branch? " * 17  # 1 KB, both ways


def event(key: str) -> Event:
    return Event("bench", key, "message", TEXT, digest_fields({"text": TEXT}))


def run_turn(tx: Tx, key: str, session: int) -> None:
    """A turn in one transaction: what a ledger without group commit would do at best."""
    hear(tx, event(key), [Addressee(f"s{session}", "demo", f"web:s{session}")])
    begun = turns.begin(tx, session, "bench", policy=LIMITS)
    assert isinstance(begun, turns.BegunTurn)
    finish_turn.finish(tx, *make_end(begun))


def make_end(begun: turns.BegunTurn) -> tuple[Any, ...]:
    """What `finish_turn.finish` takes to end a turn with one text."""
    fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
    caller = Caller(begun.session, begun.key, begun.turn, begun.root)
    block = turn_ops.Block(1, (ClaimRequest("block", TEXT, begun.home),))
    ending = finish_turn.End("answered", "end_turn", usage=limits.UsageReport(tokens=1000, policy=LIMITS))
    return fence, caller, [block], turn_ops.Slots(), ending


async def turn(record: LedgerAccess, name: str, key: str) -> None:
    """A turn as the gateway runs it."""
    begun: list[turns.BegunTurn] = []
    start = IdleStart("bench", lambda session: True, lambda session: None, begun.append, LIMITS)
    await record.write(hear, event(key), [Addressee(name, "demo", f"web:{name}")], None, start)
    await record.write(finish_turn.finish, *make_end(begun[0]))


async def clients(
    store: LedgerStore, number: int, tag: str, seconds: float = SECONDS, prefix: str = "s"
) -> tuple[float, list[float]]:
    """Turns per second of so many sessions at once (`prefix`1 and on), and the seconds each turn took."""
    record = LedgerAccess(store, Hub())
    times: list[float] = []
    stop = time.perf_counter() + seconds

    async def client(n: int) -> None:
        while (start := time.perf_counter()) < stop:
            await turn(record, f"{prefix}{n + 1}", f"{tag}.{n}.{start}")
            times.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(client(n) for n in range(number)))
    return len(times) / (time.perf_counter() - start), sorted(times)


async def alone(store: Store, tag: str, seconds: float = SECONDS) -> float:
    """Turns per second with one commit per turn, one after the other."""
    record = LedgerAccess(store, Hub())
    await turn(record, "s1", f"{tag}.first")
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        await record.write(run_turn, f"{tag}.{count}", 1)
        count += 1
    return count / (time.perf_counter() - start)


class Meter:
    """Counts the pages that a store writes to its log, and its statements; measures the CPU time of its threads.

    It replaces the log's own observer, so it is made before the store is used.
    """

    def __init__(self, store: Store, writer: int) -> None:
        committer = store._require_committer()
        self.db, self.committer, self.writer = committer._db, committer, writer
        self.pages = self.statements = self._log_pages = 0
        self._observe = committer._wal._record_growth
        self.db.set_wal_hook(self._count_pages)

    def _count_pages(self, db: apsw.Connection, name: str, pages: int) -> int:
        self.pages += pages - self._log_pages if pages >= self._log_pages else pages  # else the log began anew
        self._log_pages = pages
        return self._observe(db, name, pages)

    def _count_statement(self, event: dict[str, Any]) -> None:
        self.statements += 1

    def count_statements(self, on: bool) -> None:
        """Counting costs CPU time, so that is not measured together with it."""
        self.db.trace_v2(apsw.SQLITE_TRACE_PROFILE if on else 0, self._count_statement if on else None)

    def read(self) -> tuple[int, int, float, float]:
        """Return commits, pages, and the CPU seconds of the process and of the writer thread."""
        thread = Path(f"/proc/self/task/{self.writer}/schedstat").read_text().split()
        return self.committer.commits, self.pages, time.process_time(), int(thread[0]) / 1e9


def metered_store(path: Path) -> tuple[Store, Meter]:
    """Open a store as the gateway does, with a mark file."""
    store = Store.open(path, marked=True)
    thread = store._require_writer()._threads[0].native_id
    assert thread is not None
    return store, Meter(store, thread)


async def run_turns(store: Store, number: int, count: int, tag: str) -> None:
    """Run `count` turns in `number` sessions at once."""
    record = LedgerAccess(store, Hub())

    async def client(n: int) -> None:
        for i in range(count // number):
            await turn(record, f"c{n}", f"{tag}.{n}.{i}")

    await asyncio.gather(*(client(n) for n in range(number)))


def cost(folder: Path) -> None:
    """Print what a turn costs, for each number of sessions."""
    store, meter = metered_store(folder / "cost.db")
    with store:
        for number, count in COUNTED.items():
            asyncio.run(run_turns(store, number, 3 * number, f"warm{number}"))
            before = meter.read()
            asyncio.run(run_turns(store, number, count, f"counted{number}"))
            commits, pages, cpu, writer = ((a - b) / count for a, b in zip(meter.read(), before, strict=True))
            print(
                f"  {number:3} sessions {commits:5.2f} commits {pages:6.1f} pages {pages * FRAME_BYTES / 1024:6.1f} KiB"
                f" of log {cpu * 1e6:6.0f} us of CPU, {writer * 1e6:6.0f} of them in the writer's thread"
            )
        meter.count_statements(True)
        asyncio.run(run_turns(store, 1, 100, "statements"))
        meter.count_statements(False)
        print(f"  {meter.statements / 100:.0f} statements, with BEGIN and COMMIT")


def written() -> int:
    """Bytes this process has written."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["wchar"])


def slowed(commit: Callable[..., Any]) -> Callable[..., Any]:
    def slow(self: Committer, *args: Any) -> Any:
        done = commit(self, *args)
        time.sleep(0.002)
        return done

    return slow


def fast_disk(folder: Path) -> None:
    seen: dict[int, list[tuple[float, float, float]]] = {}
    with Store.open(folder / "ledger.db") as store:
        for number in (1, 8, 64):  # the sessions exist, the log is warm
            asyncio.run(clients(store, number, f"warm{number}", 0.3))
        for round in range(ROUNDS):
            before = written()
            rate, times = asyncio.run(clients(store, 1, f"r{round}"))
            size = max(4096, (written() - before) // max(1, len(times)) // COMMITS)
            raw = overwrite_per_second(folder, size) / COMMITS
            seen.setdefault(1, []).append((rate, rate / raw, times[len(times) // 2] * 1000))
            for number in (8, 64):
                rate, times = asyncio.run(clients(store, number, f"r{round}"))
                seen.setdefault(number, []).append((rate, rate / raw, times[len(times) // 2] * 1000))
    total = size * COMMITS / 1024
    print(f"fast disk; the reference writes {total:.0f} KiB a turn in {COMMITS} synced pieces: {raw:.0f} turns/s")
    for number, results in seen.items():
        rate, ratio, half = (statistics.median(c) for c in zip(*results, strict=True))
        print(f"  {number:3} sessions {rate:8.0f} turns/s   {ratio:5.2f} x the raw disk   p50 {half:7.2f} ms")


def slow_disk(folder: Path) -> None:
    Committer.commit = slowed(Committer.commit)  # type: ignore[method-assign]
    with Store.open(folder / "slow.db") as store:
        single = asyncio.run(alone(store, "alone"))
        print(f"disk slowed by 2 ms; one commit per turn: {single:.0f} turns/s")
        for number in (1, 8, 64):
            rate, times = asyncio.run(clients(store, number, f"slow{number}"))
            half = times[len(times) // 2] * 1000
            times_more = f"{rate / single:5.2f} x one commit per turn"
            print(f"  {number:3} sessions {rate:8.0f} turns/s   {times_more}   p50 {half:7.2f} ms")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
        print("one turn costs")
        cost(Path(root))
        fast_disk(Path(root))
        slow_disk(Path(root))
