"""While a turn runs, the person who asked sees that somebody types; nothing waits for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from gateway_world import script, until
from stream_world import ROOM, TypingChannel, asked, world

from semel.gateway.outbound import typing
from semel.gateway.ports import Safety


def typist() -> TypingChannel:
    return TypingChannel("chat", Safety.AT_MOST_ONCE, typing=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing, "TYPING_INTERVAL_S", 0.03)


async def typed(channel: TypingChannel, times: int) -> None:
    async def enough() -> bool:
        return len(channel.typed) >= times

    await until(enough)


async def test_somebody_types_from_the_beginning_of_a_turn_to_its_end(tmp_path: Path) -> None:
    channel, gate = typist(), tmp_path / "go on"
    async with world(tmp_path, channel, stream=False) as w:
        await asked(w, channel, script({"wait": str(gate)}, "done"))
        await typed(channel, 3)
        gate.touch()
        await w.idle(ROOM)
        await asyncio.sleep(0)
        count = len(channel.typed)
        await asyncio.sleep(0.2)
        assert len(channel.typed) == count, "and not a moment longer"
        assert set(channel.typed) == {"room"}
        assert repr(w.gateway.typing) == "<Typing in 0 turns, 0 calls under way>"


async def test_nobody_types_while_a_person_is_asked(tmp_path: Path) -> None:
    channel = typist()
    async with world(tmp_path, channel, stream=False) as w:
        await asked(w, channel, script({"permission": "delete it"}, "done"))

        async def open_() -> bool:
            return any(run.permissions.open for run in w.gateway.turns.runs.values())

        await until(open_)
        await asyncio.sleep(0.1)
        count = len(channel.typed)
        await asyncio.sleep(0.2)
        assert len(channel.typed) == count
        await w.gateway.controls.stop_turn(ROOM, "ann")
        await w.idle(ROOM)


async def test_nobody_types_where_no_person_of_the_channel_asked(tmp_path: Path) -> None:
    channel, gate = typist(), tmp_path / "go on"
    gate.touch()
    async with world(tmp_path, channel, stream=False) as w:
        await w.gateway.report(ROOM, "build.failed", script({"sleep": 0.1}, "done"), wakes=True)
        await w.idle(ROOM)
        await w.gateway.say(ROOM, script({"sleep": 0.1}, "done too"))  # from the page
        await w.idle(ROOM)
        assert channel.typed == []


@pytest.mark.parametrize("trouble", ["raises", "hangs", "does not even stop"])
async def test_typing_that_fails_or_hangs_delays_nothing(tmp_path: Path, trouble: str) -> None:
    channel, calls = typist(), 0
    over = asyncio.Event()

    async def meanwhile(address: str) -> None:
        nonlocal calls
        calls += 1
        if trouble == "raises":
            raise OSError("the platform is gone")
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                if trouble == "hangs":
                    raise

    channel.meanwhile = meanwhile
    try:
        async with world(tmp_path, channel, stream=False) as w:
            await asked(w, channel, script({"sleep": 0.3}, "done"))
            await w.idle(ROOM)
            assert await w.texts(ROOM, "agent") == ["done"]
            await w.sent()
            assert channel.platform.shown("room") == ["done"]
            assert calls == 1 if trouble == "does not even stop" else calls > 1
    finally:
        over.set()  # else a loop that ends would wait for it
