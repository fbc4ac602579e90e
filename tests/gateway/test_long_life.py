"""An agent that lives for many turns costs the gateway no more than one that lives for a few (Law 11)."""

from __future__ import annotations

from pathlib import Path

from gateway_world import World, script


async def test_what_earlier_turns_said_is_not_held_in_memory(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        for n in range(12):
            await w.gateway.say("demo:web:long", script(f"Answer {n}."))
            await w.idle("demo:web:long")
        [live] = w.gateway.spawns.live.values()
        held = [item.text for item in live.fold.items()]
        assert "Answer 11." in held and not {f"Answer {n}." for n in range(10)} & set(held), held
