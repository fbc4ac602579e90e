"""One outage of ten minutes, of every kind, for every safety class, with gateways that die in it: nothing is lost,
nothing comes twice, and the order stays. The clock is simulated."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from outbox_desk import BOUND, Desk, kill

from fewer_cases import cross
from semel.gateway.ports import Op, Receipt, Safety
from semel.ledger.admin import books
from semel.ledger.delivery import parts
from semel.testing import FakeChannel, Fault, FrozenClock, Platform

OUTAGES = {
    "connection refused": (Fault.REFUSE, None),
    "502": (Fault.ERROR, None),
    "503 with Retry-After": (Fault.LIMIT, 45.0),
    "429": (Fault.LIMIT, 5.0),
    "hangs until the time-out": (Fault.HANG, None),
    "answers dropped": (Fault.DROP, None),
}
KNOWN = {"connection refused", "503 with Retry-After", "429"}
"""Outages in which each attempt provably sent nothing."""
LIVES, MESSAGES = 4, 5


class Hung(FakeChannel):
    """Counts the attempts that hang."""

    hanging = 0

    async def send(self, op: Op) -> Receipt:
        self.hanging += 1
        try:
            return await super().send(op)
        finally:
            self.hanging -= 1


async def settle(desk: Desk, chat: Hung) -> None:
    """All that can happen before the clock moves has happened."""
    quiet = asyncio.ensure_future(desk.outbox.wait_until_idle())
    try:
        async with asyncio.timeout(BOUND):
            while not quiet.done():
                if chat.hanging and desk.outbox.under_way == chat.hanging:
                    await asyncio.sleep(0.005)  # whatever the ledger's thread still does
                    if chat.hanging and desk.outbox.under_way == chat.hanging:
                        return
                await asyncio.sleep(0.001)
    finally:
        quiet.cancel()


async def pass_time(desk: Desk, chat: Hung, seconds: float) -> None:
    await settle(desk, chat)
    end = desk.clock.now() + round(seconds * 1000)
    while (at := desk.clock.next) is not None and at <= end:
        await desk.clock.advance_to_next()
        await settle(desk, chat)
    await desk.clock.advance((end - desk.clock.now()) / 1000)
    await settle(desk, chat)


@pytest.mark.parametrize(("outage", "safety"), cross(OUTAGES, Safety))
async def test_an_outage_of_ten_minutes_with_restarts_loses_nothing(ledger: Path, safety: Safety, outage: str) -> None:
    fault, retry_after = OUTAGES[outage]
    platform = Platform(folds=safety is Safety.IDEMPOTENT, retry_after=retry_after)
    chat = Hung("chat", safety, platform, timeout=20.0, key_life=86_400.0)
    platform.fail_always(fault)
    platform.findable = False
    clock, said = FrozenClock(), []
    for _ in range(LIVES):
        desk = await Desk(ledger, chat, clock=clock).__aenter__()
        for _ in range(MESSAGES):
            said.append(f"{len(said)}")
            await desk.say("chat:room", said[-1])
            await pass_time(desk, chat, 600 / LIVES / MESSAGES)
        await kill(desk)
    platform.fail_always(None)
    platform.findable = True
    async with Desk(ledger, chat, clock=clock) as desk:
        await pass_time(desk, chat, 1200)
        found = {p["text"]: p["state"] for p in await desk.store.read(parts.list_newest, None, 1000)}
        broken = [book for book in await desk.store.read(books.audit) if not book.ok]
        assert not broken, broken
    shown = platform.shown("room")
    assert shown == [text for text in said if text in shown], "once each, in order"
    assert set(found) == set(said)
    if safety is not Safety.AT_MOST_ONCE or outage in KNOWN:
        assert shown == said
        assert set(found.values()) == {"sent"}
    else:
        assert set(found.values()) <= {"sent", "held"}
        assert all(found[text] == "held" for text in said if text not in shown), "what is missing asks a person"
    attempts = sum(platform.attempts.values())
    assert attempts <= 12 * len(said), "a dead platform is not hammered"
