"""Whoever stops watching is let go at once, whatever is told at that moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from gateway_world import World, script, until


async def test_a_watcher_that_leaves_just_as_something_is_told_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`asyncio.wait_for` of Python 3.11 swallows a cancel that comes with what was waited for."""
    monkeypatch.setattr("semel.gateway.api.reads.FRAME_INTERVAL_S", 60.0)
    async with World(tmp_path) as w:
        await w.ask(script("One."))
        frames = 0

        async def look() -> None:
            nonlocal frames
            async for _ in w.gateway.watch("s", None):
                frames += 1

        async def told() -> bool:
            return frames > 1

        task = asyncio.create_task(look())
        await until(lambda: _watched(w))
        w.gateway.record.hub.publish([(1, {"op": "append", "rev": 10_000, "seq": 2, "text": "x"})])
        await until(told)
        [watcher] = w.gateway.record.hub._watchers[1]
        watcher.urgent.set()
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        assert task.done()
        assert not w.gateway.record.hub.count_watchers(1)


async def _watched(w: World) -> bool:
    return w.gateway.record.hub.count_watchers(1) > 0
