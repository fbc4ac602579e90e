"""What tests of commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway_world import World, until

Json = dict[str, Any]


async def command(w: World, text: str, session: str = "s", **more: Any) -> str:
    """Give a command; its answer."""
    heard = await w.gateway.say(session, text, **more)
    return await answer(w, heard.event, session)


async def answer(w: World, event: int, session: str = "s") -> str:
    """The notice that answers a command."""
    found: list[str] = []

    async def answered() -> bool:
        rows = await w.entries(session)
        asked = next((row["seq"] for row in rows if row.get("event") == event), None)
        found[:] = [row["text"] for row in rows if row.get("of") == asked and row["role"] == "notice"]
        return bool(found) and asked is not None

    await until(answered)
    assert len(found) == 1
    return found[0]


def given(path: Path) -> list[str]:
    """What the scripted agent was prompted with, in order."""
    from semel.testing.scripted_agent import read_prompts

    return [one.text for one in read_prompts(path)]


def exists(path: Path) -> Any:
    async def look() -> bool:
        return path.exists()

    return look
