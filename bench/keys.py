"""Does an event cost more when a million keys are remembered (Laws 1, 11)? The same hearings in both ledgers."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
import uuid
from pathlib import Path

import apsw

from semel.gateway.record import Hub, LedgerAccess
from semel.law.identity import digest_fields
from semel.ledger.inbound.hear import Addressee, Event, hear
from semel.ledger.sqlite.store import Store

KEYS = 1_000_000
FEW = 1_000  # keys that a nearly empty ledger remembers, so that it has some to repeat
ROUNDS, SECONDS = 15, 0.3
TEXT = "make test ended with 0 after 81 s. The end of its output: all is well. " * 7


def event(key: str) -> Event:
    return Event("node:ci", key, "exec.progress", TEXT, digest_fields({"text": TEXT}), wakes=False)


def remember(path: Path, count: int) -> list[str]:
    """A ledger that holds so many keys in random order, as ids of runs are. Some of them."""
    with Store.open(path):
        pass
    db = apsw.Connection(str(path))
    db.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000")
    keys, known = [f"{uuid.uuid4().hex}:exec.finished" for _ in range(count)], digest_fields({"text": TEXT})
    with db:
        db.executemany(
            "INSERT INTO event(source, key, kind, digest, at) VALUES('node:ci', ?, 'exec.finished', ?, 0)",
            ((key, known) for key in keys),
        )
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return random.Random(1).sample(keys, FEW)


async def hearings(store: Store, number: int, known: list[str]) -> float:
    """Events a second from so many producers: new ones, or where there are `known` keys, repeats of those."""
    record, chance = LedgerAccess(store, Hub()), random.Random(2)
    stop, counts = time.perf_counter() + SECONDS, [0] * number

    async def produce(n: int) -> None:
        to = [Addressee(f"s{n % 8}", "demo", f"web:s{n % 8}")]
        while time.perf_counter() < stop:
            await record.write(hear, event(chance.choice(known) if known else uuid.uuid4().hex), to)
            counts[n] += 1

    begin = time.perf_counter()
    await asyncio.gather(*(produce(n) for n in range(number)))
    return sum(counts) / (time.perf_counter() - begin)


def compare(root: Path) -> None:
    begin = time.monotonic()
    many, few = remember(root / "many.db", KEYS), remember(root / "few.db", FEW)
    size = (root / "many.db").stat().st_size / 2**20
    print(f"{KEYS:,} keys remembered ({size:.0f} MiB, made in {time.monotonic() - begin:.0f} s), beside {FEW:,}")
    with Store.open(root / "many.db") as past, Store.open(root / "few.db") as fresh:
        for what, of_past, of_fresh in (("new events", [], []), ("repeats", many, few)):
            for number in (1, 64):
                pairs = []
                for _ in range(ROUNDS):
                    pairs.append((
                        asyncio.run(hearings(fresh, number, of_fresh)),
                        asyncio.run(hearings(past, number, of_past)),
                    ))  # fmt: skip
                ratios = statistics.quantiles((b / a for a, b in pairs), n=4)
                a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
                spread = f"{ratios[1]:.2f} (half of them {ratios[0]:.2f}-{ratios[2]:.2f})"
                print(f"  {what:10} {number:3} producers: {a:6.0f} a second, with all keys {b:6.0f}; ratio {spread}")
