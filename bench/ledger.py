"""Group commit as the gateway runs it: N tasks of one event loop, each a message after the other.

One transaction is what hearing a message costs: 5 statements, 1 KB of text. Every round measures the raw disk too;
the table gives medians over the rounds, and the ratio to raw append + fdatasync of the same round.

    python -m bench.ledger [FOLDER] [ROUNDS]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.ledger_raw import append_per_second, overwrite_per_second
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript.entries import NextEntry

CLIENTS = (1, 8, 64)
SECONDS = 1.5
TEXT = "Could you look at the failing build on the release branch? " * 17


def session(tx: Tx, key: str) -> int:
    return tx.number("session_add", key=key, agent="main", home=None, at=tx.now)


def message(tx: Tx, session: int, key: str) -> int:
    numbers = tx.get(NextEntry, "session_next_entry", id=session)
    event = tx.value(
        int,
        "event_add",
        source="bench",
        key=key,
        kind="message",
        sender="me",
        digest=b"x" * 32,
        payload=TEXT,
        at=tx.now,
        session=None,
    )
    tx.run("hearing_add", event=event, session=session, seq=numbers.seq, wakes=1, busy=None, turn=None)
    tx.run(
        "entry_add", session=session, seq=numbers.seq, rev=numbers.rev, at=tx.now, role="user", text=TEXT,
        chapter=numbers.chapter, live=0, partial=0, turn=None, event=event, claim=None, tell=0, more=None,
    )  # fmt: skip
    tx.run("session_wake", id=session, due=tx.now, since=tx.now)
    return int(event)


async def clients(store: Store, number: int, tag: str) -> tuple[float, list[float]]:
    """Transactions per second, and the seconds each one took."""
    times: list[float] = []
    end = time.perf_counter() + SECONDS

    async def client(name: str) -> None:
        mine = await store.write(session, name)
        while (start := time.perf_counter()) < end:
            await store.write(message, mine, f"{name}.{start}")
            times.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(client(f"{tag}.{number}.{n}") for n in range(number)))
    return len(times) / (time.perf_counter() - start), sorted(times)


def main() -> None:
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    seen: dict[str, list[tuple[float, float, float, float]]] = {}
    with tempfile.TemporaryDirectory(dir=where) as folder, Store.open(Path(folder) / "ledger.db") as store:
        for round in range(rounds):
            raw = append_per_second(Path(folder))
            seen.setdefault("raw append", []).append((raw, 1.0, 1000 / raw, 0))
            over = overwrite_per_second(Path(folder))
            seen.setdefault("raw overwrite", []).append((over, over / raw, 1000 / over, 0))
            for number in CLIENTS:
                rate, times = asyncio.run(clients(store, number, str(round)))
                half, most = times[len(times) // 2], times[int(len(times) * 0.99)]
                seen.setdefault(f"{number} clients", []).append((rate, rate / raw, half * 1000, most * 1000))
        print(f"{'':15}{'per second':>12}{'x append':>10}{'p50 ms':>9}{'p99 ms':>9}   ({rounds} rounds, medians)")
        for name, results in seen.items():
            rate, ratio, half, most = (statistics.median(column) for column in zip(*results, strict=True))
            print(f"{name:15}{rate:12.0f}{ratio:10.2f}{half:9.2f}{most:9.2f}")
        state = store.statistics()
        print(f"{state['transactions']} transactions in {state['commits']} commits")


if __name__ == "__main__":
    main()
