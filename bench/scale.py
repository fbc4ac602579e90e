"""Does the cost of a message grow with history (Law 11)? The same turns in an empty and in a full ledger."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import apsw

from bench.turns import TEXT, clients
from semel.ledger.store import Store

ENTRIES = 1_000_000
SESSIONS = 1_000
ROUNDS = 5


def fill(path: Path, entries: int = ENTRIES) -> None:
    """A ledger with a past: `entries` entries of half as many finished turns, in SESSIONS sessions."""
    with Store.open(path):
        pass
    db = apsw.Connection(str(path))
    db.execute("PRAGMA synchronous=OFF; PRAGMA cache_size=-200000")
    text = TEXT[:200]
    turns = entries // 2
    per = turns // SESSIONS
    with db:
        db.executemany(
            "INSERT INTO session(id, key, agent, home, epoch, seq, rev, at) VALUES(?, ?, 'demo', ?, ?, ?, ?, 0)",
            ((n, f"past-{n}", f"web:past-{n}", per, per * 2, per * 4) for n in range(1, SESSIONS + 1)),
        )
        for first in range(0, turns, 50_000):
            span = range(first, min(turns, first + 50_000))
            _fill_span(db, span, per, text)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def _fill_span(db: apsw.Connection, span: range, per: int, text: str) -> None:
    db.executemany(
        "INSERT INTO event(id, source, key, kind, digest, payload, at) VALUES(?, 'past', ?, 'message', x'00', ?, 0)",
        ((t + 1, f"k{t}", f'{{"text": "{text}"}}') for t in span),
    )
    db.executemany(
        "INSERT INTO turn(id, session, epoch, chapter, root, attempt, how, state, started, ended)"
        " VALUES(?, ?, ?, 1, ?, 1, 'start', 'done', 0, 0)",
        ((t + 1, t // per + 1, t % per + 1, t + 1) for t in span),
    )
    db.executemany(
        "INSERT INTO hearing(event, session, seq, wakes, turn) VALUES(?, ?, ?, 1, ?)",
        ((t + 1, t // per + 1, t % per * 2 + 1, t + 1) for t in span),
    )
    db.executemany(
        "INSERT INTO claim(id, session, turn, root, how, kind, dest, digest, text, outcome, seq, at)"
        " VALUES(?, ?, ?, ?, 'block', 'text', ?, x'00', ?, 'said', ?, 0)",
        ((t + 1, t // per + 1, t + 1, t + 1, f"web:past-{t // per + 1}", text, t % per * 2 + 2) for t in span),
    )
    rows = []
    for t in span:
        n = t % per
        rows.append((t // per + 1, n * 2 + 1, n * 4 + 1, "user", text, None, t + 1, None))
        rows.append((t // per + 1, n * 2 + 2, n * 4 + 3, "agent", text, t + 1, None, t + 1))
    db.executemany(
        "INSERT INTO entry(session, seq, born, rev, base, at, role, chapter, text, turn, event, claim)"
        " VALUES(?1, ?2, ?3, ?3, ?3, 0, ?4, 1, ?5, ?6, ?7, ?8)",
        rows,
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
        full, empty = Path(root) / "full.db", Path(root) / "empty.db"
        begin = time.monotonic()
        fill(full)
        size = full.stat().st_size / 2**20
        print(f"filled {ENTRIES:,} entries ({size:.0f} MiB) in {time.monotonic() - begin:.0f} s")
        with Store.open(full) as past, Store.open(empty) as fresh:
            for number in (1, 8):
                _compare(past, fresh, number)


def _compare(past: Store, fresh: Store, number: int) -> None:
    ratios, rates = [], []
    for store in (past, fresh):
        asyncio.run(clients(store, number, f"warm{number}", 0.5))
    for round in range(ROUNDS):
        a, _ = asyncio.run(clients(fresh, number, f"{number}.{round}", 1.0))
        b, _ = asyncio.run(clients(past, number, f"{number}.{round}", 1.0))
        ratios.append(b / a)
        rates.append((a, b))
    a, b = rates[len(rates) // 2]
    middle = statistics.median(ratios)
    rate = f"empty {a:6.0f} turns/s, full {b:6.0f} turns/s"
    print(f"  {number:3} sessions: {rate}; full/empty {middle:.2f} ({min(ratios):.2f}-{max(ratios):.2f})")
