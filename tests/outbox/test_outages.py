"""Outages, hangs, stops and starts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from outbox_desk import BOUND, WHY_HELD, Desk, kill

from semel.gateway.clock import SystemClock
from semel.gateway.ports import Op, Receipt, Safety
from semel.ledger.delivery import send_queue
from semel.ledger.storage.errors import LedgerFull
from semel.testing import FakeChannel, Fault, FrozenClock

HOUR = 3600.0
EVERY_CLASS = list(Safety)


@pytest.mark.parametrize("safety", EVERY_CLASS)
async def test_an_outage_of_ten_minutes_loses_nothing_and_keeps_order(ledger: Path, safety: Safety) -> None:
    chat = FakeChannel("chat", safety)
    chat.platform.fail_always(Fault.REFUSE)
    async with Desk(ledger, chat) as desk:
        for n in range(20):
            await desk.say("chat:room", f"{n}")
            await desk.pass_time(30)
        assert chat.platform.log == []
        assert 10 <= chat.platform.attempts["key-1-0"] <= 30
        chat.platform.fail_always(None)
        await desk.pass_time(60)
        assert chat.platform.shown("room") == [str(n) for n in range(20)]
        assert await desk.notices() == []


async def test_what_cannot_be_sent_is_given_up_after_the_horizon(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_always(Fault.REFUSE, address="dead")
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:dead", "hello")
        await desk.pass_time(2 * HOUR)
        await desk.clock.advance(69.9 * HOUR)
        await desk.quiet()
        assert await desk.states([part]) == ["queued"]
        await desk.pass_time(0.5 * HOUR)
        found = await desk.part(part)
        assert found["state"] == "rejected"
        assert found["error"].startswith("given up after ")
        [notice] = await desk.notices()
        assert "was rejected: given up after" in notice.text


async def test_a_machine_that_slept_past_the_horizon_still_tries(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(*[Fault.REFUSE] * 5)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.quiet()
        await desk.clock.advance(100 * HOUR)
        await desk.pass_time(HOUR)
        assert await desk.states([part]) == ["sent"]


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.HANG_AFTER, Fault.BUG, Fault.ERROR, Fault.LOSE])
async def test_whatever_a_channel_does_an_attempt_ends_and_is_one(ledger: Path, fault: Fault) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE, timeout=10.0)
    chat.platform.fail_next(fault)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.until(lambda: chat.platform.attempts["key-1-0"] == 1)
        await desk.clock.advance(10)
        await desk.pass_time(HOUR)
        assert await desk.states([part]) == ["held"]
        assert chat.platform.attempts == {"key-1-0": 1}


async def test_a_channel_that_hangs_for_ever_delays_no_other_by_more_than_50_ms(ledger: Path) -> None:
    hung = FakeChannel("hung", Safety.AT_MOST_ONCE, timeout=3600.0)
    hung.platform.fail_always(Fault.HANG)
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    async with Desk(ledger, hung, chat, max_concurrent=8, outbox_clock=SystemClock()) as desk:

        async def usual(first: int) -> float:
            """Of the quicker half of twenty messages: what else runs on this machine is no delay of ours."""
            times = []
            for n in range(first, first + 20):
                start = asyncio.get_running_loop().time()
                await desk.say("chat:room", str(n))
                while len(chat.platform.log) <= n:  # noqa: ASYNC110 - as soon as the loop allows
                    await asyncio.sleep(0)
                times.append(asyncio.get_running_loop().time() - start)
            return sorted(times)[5]

        alone = await usual(0)
        for n in range(100):
            await desk.say(f"hung:{n}", "never")
        await desk.until(lambda: sum(hung.platform.attempts.values()) == 8)
        beside = await usual(20)
        assert chat.platform.shown("room") == [str(n) for n in range(40)]
        assert "hung: 8 under way" in repr(desk.outbox)
        assert beside - alone < 0.05


async def test_a_channel_that_ignores_being_cancelled_is_left_behind(ledger: Path) -> None:
    let_go = asyncio.Event()

    class Stubborn(FakeChannel):
        async def send(self, op: Op) -> Receipt:
            self.platform.attempts[op.key] += 1
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    pass
            return Receipt("too late")

    chat = Stubborn("chat", Safety.AT_MOST_ONCE, timeout=10.0)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.until(lambda: chat.platform.attempts["key-1-0"] == 1)
        await desk.clock.advance(10)
        await desk.quiet()
        assert await desk.states([part]) == ["held"]
        let_go.set()
        await asyncio.sleep(0)
        assert await desk.states([part]) == ["held"]


async def test_what_was_sending_when_the_gateway_died_is_unknown_and_not_repeated(ledger: Path) -> None:
    clock = FrozenClock()
    once, twice = FakeChannel("once", Safety.AT_MOST_ONCE), FakeChannel("twice", Safety.IDEMPOTENT)
    seen = FakeChannel("seen", Safety.RECONCILABLE, settle=3.0)
    for channel in (once, twice, seen):
        channel.platform.fail_next(Fault.HANG_AFTER)
    desk = Desk(ledger, once, twice, seen, clock=clock)
    worker = asyncio.create_task(desk.outbox.run())
    ids = [(await desk.say(f"{name}:room", "hello"))[0] for name in ("once", "twice", "seen")]
    await desk.until(lambda: all(c.platform.log for c in (once, twice, seen)))
    assert await desk.states(ids) == ["sending"] * 3
    desk.task = worker
    await kill(desk)

    async with Desk(ledger, once, twice, seen, clock=clock) as desk:
        await desk.quiet()
        assert await desk.states(ids) == ["held", "sent", "unknown"]
        await desk.pass_time(2.9)
        assert seen.platform.finds == {}, "an attempt may have ended just before the start"
        await desk.pass_time(0.2)
        assert await desk.states(ids) == ["held", "sent", "sent"]
        assert [len(c.platform.log) for c in (once, twice, seen)] == [1, 1, 1]
        [notice] = await desk.notices()
        assert "the gateway stopped before the answer came" in notice.text


async def test_a_clean_stop_gives_grace_and_records_the_rest_as_unknown(ledger: Path) -> None:
    quick, slow = FakeChannel("quick", Safety.AT_MOST_ONCE), FakeChannel("slow", Safety.AT_MOST_ONCE)
    slow.platform.fail_next(Fault.HANG)
    desk = Desk(ledger, quick, slow)
    worker = asyncio.create_task(desk.outbox.run())
    [hung] = await desk.say("slow:room", "hello")
    await desk.until(lambda: slow.platform.attempts["key-1-0"] == 1)
    await desk.outbox.stop(0.05)
    await asyncio.wait_for(worker, BOUND)
    [after] = await desk.say("quick:room", "said while stopping")
    assert await desk.states([hung, after]) == ["held", "queued"]
    assert (await desk.part(hung))["error"] == f"the gateway stopped before the answer came; {WHY_HELD}"
    assert repr(desk.outbox) == "<Outbox stopping, quick: 0 under way, slow: 0 under way>"
    desk.store.close()


async def test_a_part_that_departed_while_stopping_is_queued_again_since_nothing_left(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    desk = Desk(ledger, chat)
    stopping: list[asyncio.Task[None]] = []

    def stop_now(body: Any) -> None:
        if body is send_queue.depart and not stopping:
            stopping.append(asyncio.create_task(desk.outbox.stop(BOUND)))

    [part] = await desk.say("chat:room", "hello")
    desk.before_write = stop_now
    await asyncio.wait_for(desk.outbox.run(), BOUND)
    await asyncio.gather(*stopping)
    assert await desk.states([part]) == ["queued"]
    assert chat.platform.attempts == {}
    desk.store.close()


async def test_an_outcome_is_not_lost_while_the_disk_is_full(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    async with Desk(ledger, chat) as desk:
        refused: list[int] = []

        def refuse(body: Any) -> None:
            if body is send_queue.record_outcome and len(refused) < 3:
                refused.append(desk.clock.now())
                raise LedgerFull(path=ledger, why="disk full")

        desk.before_write = refuse
        [part] = await desk.say("chat:room", "hello")
        for n in (1, 2, 3):
            await desk.until(lambda n=n: len(refused) == n and desk.clock.sleepers > 0)
            await desk.clock.advance_to_next()
        await desk.quiet()
        assert await desk.states([part]) == ["sent"]
        assert chat.platform.attempts == {"key-1-0": 1}


async def test_parts_of_a_channel_that_is_not_configured_wait_and_are_named(
    ledger: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FrozenClock()
    async with Desk(ledger, clock=clock) as desk:
        [part] = await desk.say("gone:room", "hello")
        await desk.quiet()
    async with Desk(ledger, clock=clock) as desk:
        await desk.quiet()
        assert "1 part waits for channel 'gone', which is not configured" in caplog.text
        assert await desk.states([part]) == ["queued"]
    chat = FakeChannel("gone", Safety.AT_MOST_ONCE)
    async with Desk(ledger, chat, clock=clock) as desk:
        await desk.quiet()
        assert chat.platform.shown("room") == ["hello"]


async def test_a_row_that_cannot_be_read_stops_nothing_else(ledger: Path, caplog: pytest.LogCaptureFixture) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    async with Desk(ledger, chat) as desk:
        failed: list[int] = []

        def fail_once(body: Any) -> None:
            if body is send_queue.depart and not failed:
                failed.append(1)
                raise ValueError("a row that makes no sense")

        desk.before_write = fail_once
        odd = await desk.say("chat:odd", "x", file=7)
        await desk.say("chat:room", "hello")
        await desk.until(lambda: bool(failed))
        await desk.pass_time(30)
        assert chat.platform.shown("room") == ["hello"]
        assert await desk.states(odd) == ["rejected"]
        assert "the outbox cannot tell what to send" in caplog.text


async def test_two_attempts_in_one_millisecond_leave_a_part_in_doubt(ledger: Path) -> None:
    """The gateway died, and the next one tries again before the clock has moved: "connection refused" proves nothing
    of the first attempt, which did arrive."""
    clock, chat = FrozenClock(), FakeChannel("chat", Safety.IDEMPOTENT)
    chat.platform.fail_next(Fault.HANG_AFTER, Fault.REFUSE)
    desk = await Desk(ledger, chat, clock=clock).__aenter__()
    [part] = await desk.say("chat:room", "hello")
    await desk.until(lambda: bool(chat.platform.log))
    await kill(desk)
    async with Desk(ledger, chat, clock=clock) as desk:
        await desk.quiet()
        assert await desk.states([part]) == ["unknown"]
        await desk.pass_time(5)
        assert await desk.states([part]) == ["sent"]
        assert chat.platform.shown("room") == ["hello"]


async def test_what_waits_because_the_account_was_refused_is_tried_at_once_after_a_restart(ledger: Path) -> None:
    clock = FrozenClock()
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE, account_refusals=("connection refused",))
    other = FakeChannel("other", Safety.AT_MOST_ONCE)
    for channel in (chat, other):
        channel.platform.fail_always(Fault.REFUSE)
    async with Desk(ledger, chat, other, clock=clock) as desk:
        ids = [*await desk.say("chat:room", "one", "two"), *await desk.say("other:room", "three")]
        await desk.pass_time(HOUR)
        assert await desk.states(ids) == ["queued"] * 3
    for channel in (chat, other):
        channel.platform.fail_always(None)
    async with Desk(ledger, chat, other, clock=clock) as desk:
        await desk.quiet()
        assert await desk.states(ids) == ["sent", "sent", "queued"], "other reasons wait as long as they have to"
