"""The outbox under whatever chance brings: every fault of every class, in any order, with people deciding."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from outbox_desk import Desk, say

from semel.gateway.ports import Safety
from semel.law.delivery import Rules
from semel.ledger.delivery import parts, send_queue
from semel.ledger.delivery.send_queue import AttemptOutcome, ChannelCapacity
from semel.ledger.sqlite.store import Store
from semel.testing import FakeChannel, Fault, FrozenClock

# Faults that end an attempt by themselves: hanging and killing have tests of their own.
FAULTS = [
    None,
    None,
    None,
    Fault.DROP,
    Fault.LOSE,
    Fault.REFUSE,
    Fault.LIMIT,
    Fault.ERROR,
    Fault.ERROR_AFTER,
    Fault.BUG,
]
MESSAGES = 12
ROOMS = 3


async def run_of_chance(ledger: Path, safety: Safety, seed: int) -> tuple[FakeChannel, list[dict[str, Any]]]:
    dice = random.Random(seed)
    clock, chat = FrozenClock(), FakeChannel("chat", safety, key_life=10**6)
    chat.platform.always = lambda op: dice.choice(FAULTS)
    for _ in range(3):  # lives of the gateway
        async with Desk(ledger, chat, clock=clock) as desk:
            for _ in range(MESSAGES):
                room = dice.randrange(ROOMS)
                await desk.say(f"chat:{room}", str(len(await desk.store.read(parts.list_newest, None, 10**4))))
                if dice.random() < 0.3:
                    await desk.pass_time(dice.uniform(0.1, 20))
    chat.platform.always = lambda op: None
    async with Desk(ledger, chat, clock=clock) as desk:
        await desk.pass_time(3600)
        return chat, await desk.store.read(parts.list_newest, None, 10**4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("safety", [Safety.IDEMPOTENT, Safety.RECONCILABLE])
async def test_a_class_that_can_know_delivers_each_message_once_and_in_order(
    tmp_path: Path, safety: Safety, seed: int
) -> None:
    chat, found = await run_of_chance(tmp_path / "semel.db", safety, seed)
    assert {part["state"] for part in found} == {"sent"}
    for room in range(ROOMS):
        wanted = [part["text"] for part in reversed(found) if part["dest"] == f"chat:{room}"]
        assert chat.platform.shown(str(room)) == wanted
    assert {part["key"]: part["receipt"] for part in found} == {post.key: post.id for post in chat.platform.log}


@pytest.mark.parametrize("seed", range(3))
async def test_at_most_once_never_sends_twice_and_holds_what_it_cannot_know(tmp_path: Path, seed: int) -> None:
    chat, found = await run_of_chance(tmp_path / "semel.db", Safety.AT_MOST_ONCE, seed)
    state = {part["text"]: part["state"] for part in found}
    assert set(state.values()) == {"sent", "held"}
    for room in range(ROOMS):
        wanted = [part["text"] for part in reversed(found) if part["dest"] == f"chat:{room}"]
        shown = chat.platform.shown(str(room))
        assert shown == [text for text in wanted if text in shown], "once each, and in order"
        assert all(state[text] == "held" for text in wanted if text not in shown)


class Counting:
    """A transaction that counts its statements."""

    def __init__(self, tx: Any) -> None:
        self._tx, self.count = tx, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tx, name)
        if name not in ("run", "one", "all", "value"):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return found(*args, **kwargs)

        return call


def test_a_long_line_costs_each_part_the_same(tmp_path: Path) -> None:
    """Law 11: what waits is walked past once, not each time."""
    rules = Rules("at-most-once")
    counts = []

    def turn(tx: Any) -> int:
        counting: Any = Counting(tx)
        done = send_queue.depart(counting, {"chat": ChannelCapacity(rules, 10)})
        for departure in done.sends:
            send_queue.record_outcome(counting, departure.part, AttemptOutcome("receipt", receipt="m"), rules)
        counts.append(counting.count)
        return len(done.sends)

    with Store.open_sync(tmp_path / "semel.db") as store:
        store.write_sync(say, "chat:room", [str(n) for n in range(1000)])
        sent = sum(store.write_sync(turn) for _ in range(100))
    assert sent >= 80
    assert max(counts) < 3 * send_queue.MAX_PARTS_SCANNED
    assert sorted(counts)[50] < 20
