"""Events: how many are accepted a second, how soon the agent has them, and what remembering a million keys costs.

"Raw commits" inserts one row into a bare SQLite table and commits, one after the other, as durably as the ledger does.
"Echo" is the gateway's own HTTP server with nothing behind it, asked by the same clients.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
import uuid
from pathlib import Path

import apsw

from bench.house import Client, House, beside, house, line

PRODUCERS = (1, 64)
ROUNDS, SECONDS = 5, 1.5
TEXT = "make test ended with 0 after 81 s. The end of its output: all is well. " * 7  # 500 characters
WARM, COLD, BUSY = 300, 60, 60


# -------------------------------------------------------------------- accepted


async def producers(port: int, number: int) -> float:
    """Events a second that so many producers report, each after the last one's answer."""
    lines = [await Client(port).open() for _ in range(number)]
    stop, counts = time.perf_counter() + SECONDS, [0] * number

    async def produce(n: int) -> None:
        while time.perf_counter() < stop:
            await lines[n].report(f"events-{n}", "exec.progress", TEXT, uuid.uuid4().hex)
            counts[n] += 1

    begin = time.perf_counter()
    await asyncio.gather(*(produce(n) for n in range(number)))
    rate = sum(counts) / (time.perf_counter() - begin)
    for one in lines:
        one.close()
    return rate


def raw_commits(folder: Path) -> float:
    """Inserts of one such row a second, each its own durable commit."""
    db = apsw.Connection(str(folder / "raw.db"))
    db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE IF NOT EXISTS event(id INTEGER PRIMARY KEY, key TEXT UNIQUE, text TEXT) STRICT")
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        db.execute("INSERT INTO event(key, text) VALUES(?, ?)", (uuid.uuid4().hex, TEXT))
        count += 1
    rate = count / (time.perf_counter() - begin)
    db.close()
    return rate


def accepted() -> None:
    """The table gives medians over the rounds, and ratios to what the same round gave."""
    seen: dict[str, list[tuple[float, float, float]]] = {}
    with house() as one, beside("bench.echo") as told:
        nothing = int(told)
        for number in PRODUCERS:  # the sessions exist
            asyncio.run(producers(one.port, number))
        for _ in range(ROUNDS):
            raw = raw_commits(one.root)
            for number in PRODUCERS:
                bare = asyncio.run(producers(nothing, number))
                rate = asyncio.run(producers(one.port, number))
                seen.setdefault(f"echo, {number} at once", []).append((bare, bare / raw, 1.0))
                seen.setdefault(f"events, {number} producers", []).append((rate, rate / raw, rate / bare))
            seen.setdefault("raw commits", []).append((raw, 1.0, 0.0))
    print(f"{'accepted over HTTP, after the commit':30}{'a second':>10}{'x raw commits':>15}{'x echo':>9}")
    for name, results in seen.items():
        rate, commits, echoes = (statistics.median(column) for column in zip(*results, strict=True))
        print(f"{name:30}{rate:10.0f}{commits:15.2f}{f'{echoes:9.2f}' if echoes else ''}", flush=True)


# -------------------------------------------------------------------- wake to prompt


async def woken(one: House, sessions: list[str], times: int) -> list[float]:
    """ms from an event's acceptance to its session's agent having the prompt, one session after the other."""
    client, waits = await Client(one.port).open(), []
    pongs: dict[str, asyncio.Queue[tuple[int, int]]] = {name: asyncio.Queue() for name in sessions}
    watchers = []

    async def ask(session: str, patience: float) -> float:
        accepted = await client.report(session, "exec.finished", TEXT, uuid.uuid4().hex)
        had, _ = await asyncio.wait_for(pongs[session].get(), patience)
        await asyncio.sleep(0.02)  # the turn is over
        return (had - accepted) / 1e6

    for session in sessions:
        await client.report(session, "exec.finished", "first", uuid.uuid4().hex)  # there is something to watch
        watchers.append(asyncio.create_task((await Client(one.port).open()).watch(session, pongs[session])))
        await asyncio.sleep(2)
        while not pongs[session].empty():
            pongs[session].get_nowait()
        await ask(session, 30)
    for n in range(times):
        waits.append(await ask(sessions[n % len(sessions)], 30))
    for task in watchers:
        task.cancel()
    client.close()
    return waits


async def busy(one: House) -> list[float]:
    """ms from the end of the running turn to the agent having the event that was accepted meanwhile."""
    client, log, waits = await Client(one.port).open(), one.root / "prompts", []

    def seen() -> list[str]:
        return log.read_text().splitlines() if log.exists() else []

    async def given(number: int) -> int:
        """When the agent had its nth prompt."""
        while len(seen()) < number:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.001)
        return int(json.loads(seen()[number - 1])["heard"])

    for n in range(BUSY):
        end = one.root / f"end-{n}"
        await client.post("busy", f"[[script {json.dumps({'steps': [{'wait': str(end)}]})}]]")
        await given(2 * n + 1)
        await client.report("busy", "exec.finished", "[[script []]]", uuid.uuid4().hex)
        await asyncio.sleep(0.05)  # it is a while before the turn ends
        begin = time.monotonic_ns()
        end.touch()
        waits.append((await given(2 * n + 2) - begin) / 1e6)
        await asyncio.sleep(0.02)
    client.close()
    return waits


def waking() -> None:
    with house() as one:
        print(line("event -> prompt, idle session, warm agent", asyncio.run(woken(one, ["warm"], WARM))), flush=True)
    with house(live=1) as one:  # each of the two sessions ends the other's agent
        print(line("event -> prompt, idle session, cold agent", asyncio.run(woken(one, ["a", "b"], COLD))), flush=True)
    with house(instant=False) as one:
        print(line("turn's end -> prompt, busy session", asyncio.run(busy(one))), flush=True)


def main() -> None:
    from bench import keys

    accepted()
    waking()
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
        keys.compare(Path(root))
