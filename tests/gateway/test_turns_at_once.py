"""A turn that begins in the transaction that hears its event is served, whatever becomes of who sent the event."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from gateway_world import World, until


async def test_a_message_is_answered_whose_sender_left_before_the_commit(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("say: first")
        sending = asyncio.create_task(w.gateway.say("s", "say: second"))
        while not w.gateway.store._require_writer()._queue.qsize() and not sending.done():  # noqa: ASYNC110
            await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

        async def answered() -> bool:
            return await w.texts("s", "agent") == ["first", "second"]

        await until(answered)
        await w.idle("s")


async def test_messages_at_once_are_all_answered_by_one_turn_at_a_time(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await asyncio.gather(*(w.gateway.say("s", f"say: {n}") for n in range(20)))
        await w.idle("s")
        assert len(await w.texts("s", "user")) == 20
        assert not w.gateway.turns._begun and not w.gateway.turns.tasks


async def test_work_alone_in_a_session_is_over_before_its_turn_runs(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("say: first")
        session, go_on = await w.gateway.record.find_session("s"), asyncio.Event()

        async def body(number: int) -> bool:
            await go_on.wait()
            return number in w.gateway.turns.runs

        alone = asyncio.create_task(w.gateway.turns.run_alone(session, body))
        while session not in w.gateway.turns.tasks:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await w.gateway.say("s", "say: second")
        go_on.set()
        assert await alone is False
        await w.idle("s")
        assert await w.texts("s", "agent") == ["first", "second"]


async def test_a_turn_that_begins_while_the_gateway_begins_to_stop_has_its_time(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        turns, loop = w.gateway.turns, asyncio.get_running_loop()
        stops: list[asyncio.Task[None]] = []
        stopping = threading.Event()

        def stop() -> None:
            stops.append(loop.create_task(turns.stop(grace=30)))
            loop.call_soon(stopping.set)

        def is_idle(session: int) -> bool:
            """Say yes, and let the gateway begin to stop before the transaction commits."""
            loop.call_soon_threadsafe(stop)
            return stopping.wait(30)

        turns.idle_start = replace(turns.idle_start, is_idle=is_idle)
        await w.gateway.say("s", "say: first")
        await stops[0]
        assert not turns._begun and not turns.tasks
        assert await w.texts("s", "agent") == ["first"]
