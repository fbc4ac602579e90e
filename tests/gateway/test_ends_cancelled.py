"""Whoever is cancelled while it ends an agent's process leaves it to end all the same, and the gateway waits for it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from gateway_world import World, script


async def test_an_ending_that_its_caller_gave_up_goes_on_and_is_waited_for(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script("One."))
        [live] = w.gateway.spawns.live.values()
        ending = asyncio.create_task(w.gateway.spawns.end(live.session, "a test"))
        while w.gateway.spawns.live:  # noqa: ASYNC110  it has begun
            await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        await w.gateway.spawns.stop(0.1)
        with pytest.raises(ProcessLookupError):
            os.kill(live.conversation.process.pid, 0)
