"""Does the cost of a message grow with history (Law 11)? The same turns in an empty and in a full ledger.

Full is: 1,000,000 entries of other sessions; 100,000 entries in the very sessions that talk; 10,000 sessions beside.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import apsw

from bench.turns import TEXT, clients
from semel.ledger.sqlite.store import Store

ROUNDS, SECONDS = 21, 0.4
LONG, MANY, CROWD = 100_000, 1_000_000, 10_000


def fill(path: Path, entries: int, sessions: int, text: str = TEXT[:200]) -> None:
    """A past for a ledger: `entries` entries of half as many finished turns in that many sessions, past-1 and on.

    Called again it adds sessions with the next numbers.
    """
    with Store.open(path):
        pass
    db = apsw.Connection(str(path))
    db.execute("PRAGMA synchronous=OFF; PRAGMA cache_size=-200000")
    per = entries // 2 // sessions
    known = db.execute("SELECT count(*) FROM session").get
    begun = db.execute("SELECT count(*) FROM turn").get
    with db:
        db.executemany(
            "INSERT INTO session(id, key, agent, home, epoch, seq, rev, at) VALUES(?, ?, 'demo', ?, ?, ?, ?, 0)",
            ((n, f"past-{n}", f"web:past-{n}", per, per * 2, per * 4) for n in range(known + 1, known + sessions + 1)),
        )
        for first in range(0, per * sessions, 50_000):
            span = range(first, min(per * sessions, first + 50_000))
            _fill_span(db, span, per, known, begun, text)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def _fill_span(db: apsw.Connection, span: range, per: int, known: int, begun: int, text: str) -> None:
    """The turns of a span: (turn, session, its number there)."""
    turns = [(begun + t + 1, known + t // per + 1, t % per + 1) for t in span]
    db.executemany(
        "INSERT INTO event(id, source, key, kind, digest, payload, at) VALUES(?, 'past', ?, 'message', x'00', ?, 0)",
        ((t, f"k{t}", f'{{"text": "{text}"}}') for t, _, _ in turns),
    )
    db.executemany(
        "INSERT INTO turn(id, session, epoch, chapter, root, attempt, how, state, started, ended, evidence,"
        " evidence_row) VALUES(?1, ?2, ?3, 1, ?1, 1, 'start', 'done', 0, 0, 'said', ?1)",
        turns,
    )
    db.executemany(
        "INSERT INTO hearing(event, session, seq, wakes, turn) VALUES(?1, ?2, ?3 * 2 - 1, 1, ?1)",
        turns,
    )
    db.executemany(
        "INSERT INTO claim(id, session, turn, root, how, kind, dest, digest, text, outcome, seq, at)"
        " VALUES(?1, ?2, ?1, ?1, 'block', 'text', 'web:past-' || ?2, x'00', ?4, 'said', ?3 * 2, 0)",
        ((*one, text) for one in turns),
    )
    rows = []
    for t, session, n in turns:
        rows.append((session, n * 2 - 1, n * 4 - 3, "user", text, None, t, None))
        rows.append((session, n * 2, n * 4 - 1, "agent", text, t, None, t))
    db.executemany(
        "INSERT INTO entry(session, seq, born, rev, base, at, role, chapter, text, turn, event, claim)"
        " VALUES(?1, ?2, ?3, ?3, ?3, 0, ?4, 1, ?5, ?6, ?7, ?8)",
        rows,
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
        _part(Path(root) / "many.db", f"{MANY:,} entries in 1,000 other sessions", [(MANY, 1_000)], "s")
        _part(Path(root) / "long.db", f"{LONG:,} entries in the session itself", [(LONG, 1)], "past-", (1,))
        _part(Path(root) / "crowd.db", f"{CROWD:,} sessions beside it", [(CROWD * 10, CROWD)], "past-")


def _part(full: Path, what: str, past: list[tuple[int, int]], prefix: str, numbers: tuple[int, ...] = (1, 8)) -> None:
    """Turns in the sessions `prefix`1 and on of a full ledger, beside the same in an empty one."""
    begin = time.monotonic()
    for entries, sessions in past:
        fill(full, entries, sessions)
    size = full.stat().st_size / 2**20
    print(f"{what} ({size:.0f} MiB, made in {time.monotonic() - begin:.0f} s)", flush=True)
    with Store.open(full) as old, Store.open(full.with_suffix(".empty")) as fresh:
        for number in numbers:
            _compare(old, fresh, number, prefix)
    full.unlink()


def _compare(past: Store, fresh: Store, number: int, prefix: str) -> None:
    ratios, rates = [], []
    for store in (past, fresh):
        asyncio.run(clients(store, number, f"warm{number}", 0.5, prefix))
    for round in range(ROUNDS):
        a, _ = asyncio.run(clients(fresh, number, f"{number}.{round}", SECONDS, prefix))
        b, _ = asyncio.run(clients(past, number, f"{number}.{round}", SECONDS, prefix))
        ratios.append(b / a)
        rates.append((a, b))
    a, b = (statistics.median(column) for column in zip(*rates, strict=True))
    rate = f"empty {a:6.0f} turns/s, full {b:6.0f} turns/s"
    middle = statistics.median(ratios)
    print(f"  {number:3} at once: {rate}; full/empty {middle:.2f} ({min(ratios):.2f}-{max(ratios):.2f})", flush=True)
