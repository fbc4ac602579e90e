"""A gateway that lives for long costs no more than one that lives for a few turns (Law 11)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from pathlib import Path

import pytest
from gateway_world import World, script, until

from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.testing.channels import FakeChannel, Platform

SESSIONS = ("demo:web:page", "demo:chat:room")
ROUNDS = 6


async def test_what_earlier_turns_said_is_not_held_in_memory(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        for n in range(12):
            await w.gateway.say("demo:web:long", script(f"Answer {n}."))
            await w.idle("demo:web:long")
        [live] = w.gateway.spawns.live.values()
        held = [item.text for item in live.fold.items()]
        assert "Answer 11." in held and not {f"Answer {n}." for n in range(10)} & set(held), held


@pytest.mark.long
async def test_turns_watchers_and_agents_that_are_over_leave_nothing_in_memory(tmp_path: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE, Platform())
    told = {"chat": ChannelSettings(name="chat", kind="fake", agent="demo")}
    async with World(tmp_path, channels={"chat": chat}, channel_settings=told) as w:
        for n in range(3):
            await work_once(w, n)
        before = live_objects()
        for n in range(ROUNDS):
            await work_once(w, n)

        async def as_before() -> bool:  # less than one object for each turn that was run meanwhile
            return live_objects() - before < ROUNDS * len(SESSIONS)

        await until(as_before)


async def work_once(w: World, n: int) -> None:
    """In each session the agent starts, thinks, works, tells by tool, answers, is watched, and is ended."""
    for key in SESSIONS:
        told = {"call": "send_message", "arguments": {"text": f"Begun {n}."}}
        await w.gateway.say(
            key, script({"think": "Hm."}, {"tool": "work", "output": f"line {n}\n"}, told, f"Over {n}.")
        )
        watching = asyncio.create_task(watch(w, key))
        await w.idle(key)
        await w.sent()
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    for live in list(w.gateway.spawns.live.values()):
        await w.gateway.spawns.end(live.session, "the test needs it no more")


async def watch(w: World, key: str) -> None:
    async for _ in w.gateway.watch(key):
        pass


def live_objects() -> int:
    """How many objects are alive, without those that the test's platform and its log collect."""
    gc.collect()
    modules = (str(type(each).__module__) for each in gc.get_objects())  # of a few types it is a descriptor
    return sum(not module.startswith(("semel.testing", "logging", "_pytest")) for module in modules)
