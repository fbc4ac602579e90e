"""One message walks through the house: heard, bound, thought about, said, recorded, shown."""

from __future__ import annotations

from pathlib import Path

from gateway_world import World, script

from semel.gateway.process_identity import IS_LINUX


async def test_a_message_is_answered_and_both_are_recorded_once(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        assert await w.ask(script("Hello there.")) == ["Hello there."]
        entries = await w.entries()
        assert [e["role"] for e in entries] == ["user", "agent"]
        assert [e["seq"] for e in entries] == [1, 2]


async def test_a_second_message_reuses_the_agent_process(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script("one"))
        first = [(a["spawn"], a["pid"]) for a in await agents(w)]
        assert await w.ask(script("two")) == ["one", "two"]
        assert [(a["spawn"], a["pid"]) for a in await agents(w)] == first
        (agent,) = (await w.gateway.overview())["agents"]
        assert agent["memory"] > 1_000_000 if IS_LINUX else agent["memory"] is None


async def agents(w: World) -> list[dict[str, object]]:
    status = await w.gateway.status()
    return list(status["agents"])
