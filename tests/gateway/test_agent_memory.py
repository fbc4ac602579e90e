"""What an agent remembers otherwise than people do: it is told so once, and a person can see it (Laws 6, 8, 9)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, destination, script, until

from semel.gateway.errors import Conflict
from semel.testing.scripted_agent import read_prompts

FORGETS = {"forget": True}


def logged(path: Path, **more: Any) -> World:
    return World(path, log=path / "prompts", **more)


def agent_saw(w: World) -> list[str]:
    return [one.text for one in read_prompts(w.path / "prompts")]


async def again(w: World) -> None:
    """The next turn has a process that loads its session."""
    await w.stop()
    await w.start()


async def test_what_people_were_shown_and_the_agent_forgot_is_told_it_once(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        await w.ask(script("Kept words."))
        await w.ask(script(FORGETS, "Forgotten words."))
        await again(w)
        await w.ask(script("Next."))
        told = agent_saw(w)[-1]
        assert "the person was shown this, and your memory lacks it: 'Forgotten words.'" in told
        assert "Kept words." not in told
        await again(w)
        await w.ask("And now?")
        assert "Forgotten words." not in agent_saw(w)[-1], "it was told, and remembers that"
        assert "notes for you" not in "\n".join(await w.texts())


async def test_a_message_of_a_person_that_the_agent_forgot_is_told_it(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        await w.ask("hello")
        await w.gateway.say("s", script("Begun ", FORGETS, {"hang": True}))
        await until(lambda: _shows(w, "Begun"))
        await w.gateway.controls.stop_turn("s", "owner")
        await w.idle()
        await again(w)
        await w.ask("what next?")
        told = agent_saw(w)[-1]
        assert "this was said to you, and your memory lacks it:" in told
        assert told.count("'Begun '") == 1, "not once as a difference and once as what was cut off"


async def _shows(w: World, text: str) -> bool:
    return any(text in one for one in await w.texts("s", "agent"))


async def test_what_never_reached_anybody_is_told_as_that(tmp_path: Path) -> None:
    async with logged(tmp_path, destinations=destination("mail", "m")) as w:
        await w.ask(script('<message to="nobody">Held back words.</message>', {"stop": "refusal"}))
        await again(w)
        found = await w.gateway.controls.compare_memory("s")
        assert [text for text in found["extra"] if "Held back words." in text]
        await w.ask(script("Next."))
        assert "your memory holds this, and it never reached the person: 'Held back words.'" in agent_saw(w)[-1]


async def test_a_conversation_of_many_kinds_differs_in_nothing(tmp_path: Path) -> None:
    async with logged(tmp_path, destinations=destination("mail", "m")) as w:
        send = {"call": "send_message", "arguments": {"text": "Sent by a tool."}, "meta": "claude"}
        await w.ask("hello")
        await w.ask(script({"think": "hm"}, "First. ", {"tool": "ls", "output": ["a", "b"]}, "Second."))
        await w.ask(script(send, "Sent by a tool."))
        await w.ask(script('<internal>plan</internal>Home words.<message to="mail">Mail words.</message>'))
        await w.gateway.report("s", "exec.finished", "done: 0")
        await w.idle()
        await again(w)
        assert await w.gateway.controls.compare_memory("s") == {"compared": True, "lacks": [], "extra": []}
        await w.ask(script("Next."))
        assert "memory" not in agent_saw(w)[-1]


async def test_the_comparison_waits_for_nobody_and_disturbs_nothing(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        await w.gateway.say("s", script("Working. ", {"hang": True}))
        await until(lambda: _shows(w, "Working."))
        with pytest.raises(Conflict, match="a turn runs"):
            await w.gateway.controls.compare_memory("s")
        await w.gateway.controls.stop_turn("s", "owner")
        await w.idle()
        before = await w.entries()
        assert (await w.gateway.controls.compare_memory("s"))["compared"]
        assert await w.entries() == before
        assert await w.ask(script("Fine.")) == ["Working. ", "Fine."]


@pytest.mark.parametrize("begins", [False, True])
async def test_what_is_heard_during_the_comparison_is_answered_after_it(tmp_path: Path, begins: bool) -> None:
    """`begins`: the comparison began while the message was written, so that a turn begins with it."""
    async with logged(tmp_path) as w:
        await w.ask(script("One."))
        ended, heard = asyncio.Event(), asyncio.Event()
        end = w.gateway.spawns.end

        async def end_then_wait(session: int, why: str) -> None:
            await end(session, why)
            ended.set()
            await heard.wait()

        w.gateway.spawns.end = end_then_wait  # type: ignore[method-assign]
        comparing = asyncio.create_task(w.gateway.controls.compare_memory("s"))
        await ended.wait()
        turns = w.gateway.turns
        idle_start = turns.idle_start
        turns.idle_start = replace(idle_start, is_idle=lambda session: begins)
        await w.gateway.say("s", script("Two."))
        turns.idle_start = idle_start
        heard.set()
        assert (await comparing)["lacks"] == [], "what waits for its turn is not lacking"
        w.gateway.spawns.end = end  # type: ignore[method-assign]
        await w.idle()
        assert await w.texts("s", "agent") == ["One.", "Two."]


async def test_an_agent_that_was_never_asked_has_no_memory_to_compare(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        await w.gateway.report("s", "exec.started", "not waking")
        found = await w.gateway.controls.compare_memory("s")
        assert not found["compared"]
        assert "never asked" in found["why"]
