"""kill -9 against a real process that sends to a real server: the platform's log is held against the ledger."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from outbox_desk import say

from semel.gateway.ports import Safety
from semel.ledger.delivery import parts
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import EntryRow, SessionRow

pytestmark = pytest.mark.storm

WORKER = Path(__file__).parent / "kill_worker.py"
DESTINATIONS = 5
EACH = 40
BOUND = 120.0


class Server:
    """A platform: what it took, in its order. It drops some answers after it took the message."""

    def __init__(self, seed: int, drops: float) -> None:
        self.log: list[tuple[str, str, str]] = []  # address, key, text
        self.dropped = 0
        self._dice = random.Random(seed)
        self._drops = drops

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(fields["content-length"]))
            await asyncio.sleep(0.01)  # a platform takes its time; kills fall into it
            writer.write(self.answer(head[0].split()[1], body))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def answer(self, path: str, body: bytes) -> bytes:
        if path.endswith("/find"):
            found = [n for n, (_, key, _) in enumerate(self.log) if key == body.decode()]
            return _http(200, {"id": f"m{found[0]}"}) if found else _http(404, {})
        data = json.loads(body)["data"]
        self.log.append((data["to"], data["key"], data["text"]))
        if self._dice.random() < self._drops:
            self.dropped += 1
            return b""
        return _http(200, {"id": f"m{len(self.log)}"})

    def seen(self, *, folded: bool) -> dict[str, list[str]]:
        """The texts at each address; `folded`: a repeated key shows nothing new."""
        shown: dict[str, list[str]] = defaultdict(list)
        keys: set[str] = set()
        for address, key, text in self.log:
            if not folded or key not in keys:
                shown[address].append(text)
            keys.add(key)
        return shown


def _http(status: int, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (status, len(data), data)


@pytest.fixture
async def platform() -> AsyncIterator[tuple[Server, str]]:
    app = Server(seed=7, drops=0.3)
    server = await asyncio.start_server(app, "127.0.0.1", 0)
    async with server:
        yield app, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def fill(ledger: Path) -> None:
    with Store.open_sync(ledger) as store:
        for n in range(EACH):
            for d in range(DESTINATIONS):
                store.write_sync(say, f"hook:room{d}", [f"{n}"], f"main:s{d}")


async def work(ledger: Path, url: str, safety: Safety, start: int, *point: str, kill: float | None = None) -> str:
    """One life of the gateway: killed after `kill` seconds, at a point, or ended when all is sent."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", str(WORKER), str(ledger), url, safety.value, str(start), *point,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(BOUND):
            assert await process.stdout.readline() == b"running\n"
            try:
                async with asyncio.timeout(kill):
                    await process.wait()
            except TimeoutError:
                process.kill()
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return "killed" if process.returncode == -signal.SIGKILL else f"ended {process.returncode}"


async def lives(ledger: Path, url: str, safety: Safety) -> Counter[str]:
    """Killed at each chosen point and three times at random, then left alone to finish."""
    fill(ledger)
    start, dice = time.time_ns() // 1_000_000, random.Random(3)
    ends: Counter[str] = Counter()
    for point in ("departed", "answered"):
        ends[await work(ledger, url, safety, start, point, "7")] += 1
    for _ in range(3):
        ends[await work(ledger, url, safety, start, kill=dice.uniform(0.1, 0.35))] += 1
    assert await work(ledger, url, safety, start) == "ended 0"
    assert ends["killed"] >= 4, ends
    return ends


def states(ledger: Path) -> dict[str, dict[str, str]]:
    """address -> text -> state."""
    out: dict[str, dict[str, str]] = defaultdict(dict)
    with Store.open_sync(ledger) as store:
        for part in store.read_sync(parts.list_newest, None, 10_000):
            out[part["dest"].partition(":")[2]][part["text"]] = part["state"]
    return out


def notices(ledger: Path) -> Counter[str]:
    """How many notices each session has."""
    with Store.open_sync(ledger) as store:

        def count(tx: Any) -> Counter[str]:
            found: Counter[str] = Counter()
            for d in range(DESTINATIONS):
                row = tx.one(SessionRow, "session_by_key", key=f"main:s{d}")
                rows = tx.all(EntryRow, "entries_last", session=row.id, before=10**9, limit=10**6)
                found[f"room{d}"] = sum(entry.role == "notice" for entry in rows)
            return found

        return store.read_sync(count)


WANTED = {f"room{d}": [str(n) for n in range(EACH)] for d in range(DESTINATIONS)}


async def test_an_idempotent_platform_shows_each_message_once_and_in_order(
    tmp_path: Path, platform: tuple[Server, str]
) -> None:
    app, url = platform
    await lives(tmp_path / "semel.db", url, Safety.IDEMPOTENT)
    assert app.dropped > 0 and len(app.log) > DESTINATIONS * EACH, "there were repeats for it to fold"
    assert app.seen(folded=True) == WANTED
    assert {s for row in states(tmp_path / "semel.db").values() for s in row.values()} == {"sent"}


async def test_a_reconcilable_platform_is_given_each_message_once_and_in_order(
    tmp_path: Path, platform: tuple[Server, str]
) -> None:
    app, url = platform
    await lives(tmp_path / "semel.db", url, Safety.RECONCILABLE)
    assert app.dropped > 0
    assert app.seen(folded=False) == WANTED
    assert {s for row in states(tmp_path / "semel.db").values() for s in row.values()} == {"sent"}


async def test_an_at_most_once_platform_is_never_given_a_message_twice_and_what_is_unsure_is_held(
    tmp_path: Path, platform: tuple[Server, str]
) -> None:
    app, url = platform
    ledger = tmp_path / "semel.db"
    await lives(ledger, url, Safety.AT_MOST_ONCE)
    assert app.dropped > 0
    found, told = states(ledger), notices(ledger)
    for address, texts in app.seen(folded=False).items():
        assert texts == [text for text in WANTED[address] if text in texts], "once each, and in order"
        missing = set(WANTED[address]) - set(texts)
        held = {text for text, state in found[address].items() if state == "held"}
        assert missing <= held
        assert set(found[address].values()) <= {"sent", "held"}
        assert told[address] == len(held)
