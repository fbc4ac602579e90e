"""A check of an agent beside the sessions never makes more processes than are allowed, and no session waits for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway_world import World


class Work:
    """Stands for a check of an agent: runs until `finish` is set, and takes its time to end when it is cancelled."""

    def __init__(self) -> None:
        self.begun, self.finish, self.cleaned_up = asyncio.Event(), asyncio.Event(), False

    async def __call__(self) -> str:
        self.begun.set()
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)  # as ending a process does
            self.cleaned_up = True
            raise
        return "checked"


async def test_a_session_that_needs_the_room_gets_it_once_the_work_has_ended(tmp_path: Path) -> None:
    async with World(tmp_path, max_live_agents=1) as w:
        work = Work()
        lent = asyncio.create_task(w.gateway.spawns.lend_room(work))
        await work.begun.wait()
        assert await w.ask("hello")
        assert work.cleaned_up, "its process was gone before the session's began"
        assert await lent is None


async def test_of_several_works_a_session_ends_one(tmp_path: Path) -> None:
    async with World(tmp_path, max_live_agents=2) as w:
        works = [Work(), Work()]
        lent = [asyncio.create_task(w.gateway.spawns.lend_room(work)) for work in works]
        for work in works:
            await work.begun.wait()
        assert await w.ask("hello")
        assert [work.cleaned_up for work in works].count(True) == 1
        for work in works:
            work.finish.set()
        assert sorted(map(str, await asyncio.gather(*lent))) == ["None", "checked"]


async def test_the_work_waits_until_there_is_room_and_its_result_is_returned(tmp_path: Path) -> None:
    async with World(tmp_path, max_live_agents=1) as w:
        await w.ask("hello")
        work = Work()
        work.finish.set()
        lent = asyncio.create_task(w.gateway.spawns.lend_room(work))
        for _ in range(50):  # more than it would need to begin
            await asyncio.sleep(0)
        assert not work.begun.is_set(), "an idle agent is not ended for it"
        live = next(iter(w.gateway.spawns.live.values()))
        await w.gateway.spawns.end(live.session, "its session rests")
        assert await lent == "checked"


async def test_a_stop_in_the_middle_ends_the_work_first(tmp_path: Path) -> None:
    async with World(tmp_path, max_live_agents=1) as w:
        work = Work()
        lent = asyncio.create_task(w.gateway.spawns.lend_room(work))
        await work.begun.wait()
        lent.cancel()
        await asyncio.wait({lent})
        assert lent.cancelled() and work.cleaned_up
        assert await w.ask("hello"), "the room is free again"
