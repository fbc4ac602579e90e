"""Words before a permission request that an agent says and asks again, once its turn goes on (Laws 5, 8)."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until

from semel.ledger.turns.spawns import list_orphaned

Json = dict[str, Any]
WORDS = "I look at the disk, then I tidy."
ASK: Json = {"permission": "rm -r build", "allowed": ["tidy"], "denied": ["left it"]}


async def until_asked(w: World, count: int) -> Json:
    """Until the agent has asked for a permission so many times; the newest request."""
    found: list[Json] = []

    async def is_asked() -> bool:
        view = await anext(w.gateway.watch("s"))
        found[:] = [item for item in view["items"] if item["kind"] == "permission"]
        return len(found) == count and found[-1]["state"] == "open"

    await until(is_asked)
    return found[-1]


async def kill_agent(w: World) -> None:
    [spawn] = await w.gateway.record.read(list_orphaned)
    os.kill(spawn.pid, signal.SIGKILL)


async def list_said(w: World) -> list[tuple[str, bool]]:
    """What the agent said, and whether it is superseded."""
    return [(e["text"], bool(e.get("superseded"))) for e in await w.entries() if e["role"] == "agent"]


@pytest.mark.parametrize("is_same", [True, False])
async def test_the_older_copy_is_superseded_if_the_same_request_comes_again(tmp_path: Path, is_same: bool) -> None:
    async with World(tmp_path) as w:
        again = ASK if is_same else {**ASK, "permission": "rm -r dist"}
        await w.gateway.say("s", script(WORDS, {"save": True}, ASK, resume=[WORDS, again]))
        await until_asked(w, 1)
        await kill_agent(w)
        request = await until_asked(w, 2)
        assert await list_said(w) == [(WORDS, is_same), (WORDS, False)]
        assert await w.gateway.controls.answer("s", request["id"], "allow", "Ann") == "answered"
        await w.idle()
        assert await list_said(w) == [(WORDS, is_same), (WORDS, False), ("tidy", False)]
