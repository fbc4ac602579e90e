"""How much a channel that hangs for ever delays another one: the time from a commit to the platform, in one run.

Two channels and one outbox on a ledger in a file. Rounds alternate between "the other channel works" and "the other
channel hangs, in as many attempts as it may have at once", so that what else this machine does falls on both alike.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.house import line
from semel.gateway.outbound.outbox import MAX_CONCURRENT_PER_CHANNEL, Outbox
from semel.gateway.ports import Op, Receipt, Safety
from semel.ledger.delivery import claims
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.cutting import Leg
from semel.ledger.inbound import hear
from semel.ledger.sqlite.store import Store
from semel.ledger.turns import turns
from semel.testing import FakeChannel, Fault

ROUNDS, EACH = 6, 50


class Timed(FakeChannel):
    """Tells when each message came."""

    def __init__(self, name: str) -> None:
        super().__init__(name, Safety.AT_MOST_ONCE, timeout=3600.0)
        self.came: asyncio.Queue[float] = asyncio.Queue()

    async def send(self, op: Op) -> Receipt:
        self.came.put_nowait(time.perf_counter())
        return await super().send(op)


def begin(tx: Any) -> turns.BegunTurn:
    """A turn that may say things."""
    hear.hear(tx, hear.Event("bench", "1", "message", "go", b"go"), [hear.Addressee("s", "demo", "web:s")])
    begun = turns.begin(tx, 1, "bench")
    assert isinstance(begun, turns.BegunTurn)
    return begun


def say(tx: Any, begun: turns.BegunTurn, dest: str, text: str) -> None:
    channel, _, address = dest.partition(":")
    leg = Leg(0, len(text), channel, dest, {"kind": "post", "session": "s", "address": address, "text": text})
    caller = Caller(begun.session, begun.key, begun.turn, begun.root)
    claims.say(tx, caller, ClaimRequest("tool", text, dest, is_home=False, legs=(leg,)))


async def measure(folder: Path) -> dict[str, list[float]]:
    seen: dict[str, list[float]] = {"alone": [], "beside": []}
    with Store.open(folder / "ledger.db") as store:
        begun = await store.write(begin)
        for round in range(ROUNDS):
            for how, times in seen.items():
                times += await one_round(store, begun, f"{round}{how}", hangs=how == "beside")
    return seen


async def one_round(store: Store, begun: turns.BegunTurn, tag: str, hangs: bool) -> list[float]:
    """Seconds from the commit of each message to its platform."""
    chat, other = Timed("chat"), Timed("other")
    other.platform.fail_always(Fault.HANG if hangs else None)
    outbox = Outbox(store, {"chat": chat, "other": other})
    running = asyncio.create_task(outbox.run())
    for n in range(MAX_CONCURRENT_PER_CHANNEL + 10):
        await store.write(say, begun, f"other:{tag}{n}", "for the other")
    outbox.kick()
    for _ in range(MAX_CONCURRENT_PER_CHANNEL):
        await other.came.get()
    times = []
    for n in range(EACH):
        start = time.perf_counter()
        await store.write(say, begun, "chat:room", f"{tag}{n}")
        outbox.kick()
        times.append(await chat.came.get() - start)
    await outbox.stop(0.01)
    await running
    return times


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
        seen = asyncio.run(measure(Path(root)))
    for how, what in (
        ("alone", "the other channel works"),
        ("beside", f"the other hangs in {MAX_CONCURRENT_PER_CHANNEL} attempts"),
    ):
        print(line(what, [each * 1000 for each in seen[how]]))
    added = (statistics.median(seen["beside"]) - statistics.median(seen["alone"])) * 1000
    print(f"{'added by the one that hangs':46} p50 {added:8.2f} ms")
