"""A channel is run again after its platform was lost; how it fares is told without its secrets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from structlog.testing import capture_logs

from semel.gateway.files import StoreFailed
from semel.gateway.inbound.channel_supervisor import ChannelStatus, ChannelSupervisor, find_secrets
from semel.gateway.ports import Caps, Denied, Inbox, Offline, Op, Receipt, Safety
from semel.ledger.storage.errors import LedgerFull
from semel.testing.clock import FrozenClock


@dataclass
class Settings:
    url: str = "https://example.org"
    token: str = field(default="123456:AAsecret", repr=False)


class Moody:
    """A channel whose runs end as its plan says: an exception, or None to stay until told."""

    def __init__(self, *plan: Exception | None) -> None:
        self.name = "moody"
        self.caps = Caps(Safety.AT_MOST_ONCE)
        self.settings = Settings()
        self.plan = list(plan)
        self.runs = 0
        self.go = asyncio.Event()

    async def run(self, inbox: Inbox) -> None:
        self.runs += 1
        fault = self.plan.pop(0) if self.plan else None
        if fault is None:
            inbox.online()
            await self.go.wait()
            self.go.clear()
            raise Offline("the connection broke")
        raise fault

    async def send(self, op: Op) -> Receipt:
        raise NotImplementedError

    async def find(self, op: Op, since: float) -> Receipt | None:
        raise NotImplementedError


class Door:
    def __init__(self, status: ChannelStatus) -> None:
        self.status = status
        self.ends = 0

    def online(self) -> None:
        self.status.online()

    async def release(self) -> None:
        self.ends += 1


@asynccontextmanager
async def kept(channel: Moody) -> AsyncIterator[tuple[FrozenClock, ChannelStatus, Door]]:
    clock = FrozenClock()
    status = ChannelStatus("moody", clock)
    door = Door(status)
    keeper = ChannelSupervisor(channel, door, status, door, clock, jitter=lambda: 0.999)  # type: ignore[arg-type]
    task = asyncio.create_task(keeper.run())
    await clock.advance(0)
    try:
        yield clock, status, door
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_lost_platform_is_tried_again_less_and_less_often_up_to_a_minute() -> None:
    channel = Moody(*[Offline("no route") for _ in range(9)])
    async with kept(channel) as (clock, status, door):
        waits = []
        while channel.plan:
            before = clock.now()
            await clock.advance_to_next()
            waits.append(round((clock.now() - before) / 1000))
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
        assert (status.state, status.error) == ("offline", "no route")
        await clock.advance_to_next()
        assert status.state == "online"
        assert (channel.runs, door.ends) == (10, 9)


async def test_after_a_minute_online_the_next_loss_is_the_first_again() -> None:
    channel = Moody(Offline("x"), Offline("x"), Offline("x"))
    async with kept(channel) as (clock, status, _):
        for _ in range(3):
            await clock.advance_to_next()
        assert status.state == "online"
        await clock.advance(61)
        channel.go.set()
        await clock.advance(0)
        assert status.retry_at == clock.now() + 999


async def test_a_platform_that_fails_now_and_then_is_tried_again_at_once() -> None:
    """A channel that polls each second loses its platform with every request that fails."""
    channel = Moody()
    async with kept(channel) as (clock, status, _):
        for _ in range(8):
            await clock.advance(15)
            channel.go.set()
            await clock.advance(0)
            assert status.retry_at == clock.now() + 999
            await clock.advance_to_next()


async def test_after_a_long_delay_a_short_time_online_is_not_enough() -> None:
    channel = Moody(*[Offline("x") for _ in range(6)])
    async with kept(channel) as (clock, status, _):
        for _ in range(6):
            await clock.advance_to_next()
        assert status.state == "online"
        await clock.advance(15)
        channel.go.set()
        await clock.advance(0)
        assert status.retry_at is not None
        assert status.retry_at - clock.now() > 30_000


async def test_a_channel_that_flaps_keeps_backing_off() -> None:
    channel = Moody()
    async with kept(channel) as (clock, status, _):
        for _ in range(5):
            channel.go.set()
            await clock.advance(0)
            assert status.state == "offline"
            await clock.advance_to_next()
        channel.go.set()
        await clock.advance(0)
        assert status.retry_at is not None
        assert status.retry_at - clock.now() > 30_000


async def test_a_lost_channel_is_offline_until_it_says_that_it_is_online() -> None:
    channel = Moody(Offline("x"), Offline("y"))
    async with kept(channel) as (clock, status, _):
        since, seen = status.since, set[str]()
        while channel.plan:
            seen.add(status.state)
            await clock.advance_to_next()
        seen.add(status.state)
        assert seen == {"offline"}
        assert status.since == since
        await clock.advance_to_next()
        assert (status.state, status.retry_at) == ("online", None)
        assert status.since > since


async def test_it_waits_as_long_as_the_platform_asks() -> None:
    async with kept(Moody(Offline("later", retry_after=500))) as (clock, status, _):
        assert status.retry_at == clock.now() + 500_000
        await clock.advance(499)
        assert status.state == "offline"


async def test_a_refused_account_is_tried_again_as_soon_as_its_channel_says() -> None:
    channel = Moody(Denied("the token was revoked", ["token"], 60.0))
    async with kept(channel) as (clock, status, _):
        assert (status.state, status.retry_at) == ("denied", clock.now() + 60_000)
        await clock.advance(61)
        assert status.state == "online"


async def test_a_refused_account_is_tried_every_ten_minutes_and_stays_denied_meanwhile() -> None:
    channel = Moody(Denied("the token is wrong: set token"), Denied("still"))
    async with kept(channel) as (clock, status, _):
        assert (status.state, status.error) == ("denied", "the token is wrong: set token")
        await clock.advance(599)
        assert channel.runs == 1
        await clock.advance(2)
        assert (channel.runs, status.error) == (2, "still")
        await clock.advance(601)
        assert status.state == "online"


async def test_a_mistake_of_a_channel_is_logged_once_and_shows_no_secret() -> None:
    fault = [RuntimeError("POST https://api/bot123456:AAsecret/getUpdates failed") for _ in range(4)]
    with capture_logs() as told:
        async with kept(Moody(*fault)) as (clock, status, _):
            for _ in range(3):
                await clock.advance_to_next()
            assert status.error == "it failed inside (RuntimeError); see the gateway's log"
    logged = str(told)
    assert logged.count("a channel failed") == 1
    assert "[secret]" in logged
    assert "AAsecret" not in logged


async def test_no_error_that_is_shown_holds_a_secret_or_is_endless() -> None:
    async with kept(Moody(Offline("GET bot123456:AAsecret\n" + "x" * 2000))) as (_, status, _):
        assert status.error is not None
        assert "AAsecret" not in status.error
        assert len(status.error) <= 400


async def test_a_full_disk_and_a_run_that_ends_are_losses_too() -> None:
    for fault in (LedgerFull(path="x", why="no space"), StoreFailed("no space")):
        async with kept(Moody(fault)) as (_, status, _):
            assert status.state == "offline"
            assert "no space" in str(status.error)


def test_the_pieces_of_a_secret_are_secret() -> None:
    assert find_secrets(Moody()) == ("123456:AAsecret", "AAsecret")


def test_counts_tell_refusals_by_their_reason() -> None:
    status = ChannelStatus("x", FrozenClock())
    for what in ("accepted", "refused:stranger", "refused:stranger", "refused:group"):
        status.count(what)
    told: dict[str, Any] = status.json()
    assert told["refused"] == {"group": 1, "stranger": 2}
    assert told["counts"] == {"accepted": 1, "duplicate": 0, "conflict": 0, "quarantined": 0}
