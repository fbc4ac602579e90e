"""Two questions in one open turn: each has an answer, though the answers may be the same words (Laws 5, 12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until

from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.testing import FakeChannel, Platform

Json = dict[str, Any]
DONE: Json = {"call": "send_message", "arguments": {"text": "Done."}}
YES = "Yes, of course."


def chunk(text: str) -> Json:
    """Text without a message id: nothing says what it belongs to."""
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}


class Talk:
    """A session whose first turn waits until a second question has joined it."""

    def __init__(self, path: Path, session: str = "s", **settings: Any) -> None:
        self.world = World(path, **settings)
        self.session = session
        self.here, self.go = path / "here", path / "go"

    def waits(self) -> list[Json]:
        """Steps: this point is reached, and left when the second question is there."""
        return [{"touch": str(self.here)}, {"wait": str(self.go)}]

    async def __aenter__(self) -> Talk:
        await self.world.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self.world.__aexit__(*why)

    async def ask(self, first: str, second: str) -> list[str]:
        """What the agent said to both."""
        await self.world.gateway.say(self.session, first)
        await until(self._is_here)
        await self.world.gateway.say(self.session, second, busy="steer")
        await until(self._joined)
        self.go.touch()
        await self.world.idle(self.session)
        return await self.world.texts(self.session, "agent")

    async def _is_here(self) -> bool:
        return self.here.exists()

    async def _joined(self) -> bool:
        return any(e.get("joined") for e in await self.world.entries(self.session))

    async def echoes(self) -> int:
        return sum(e.get("echoes", 0) for e in await self.world.entries(self.session))


async def test_the_answer_to_a_steered_question_is_said_though_a_tool_said_the_same_before(tmp_path: Path) -> None:
    async with Talk(tmp_path) as talk:
        assert await talk.ask(script(DONE, *talk.waits()), script("Done.")) == ["Done.", "Done."]
        assert await talk.echoes() == 0


async def test_a_tool_of_the_second_answer_has_its_own_echo(tmp_path: Path) -> None:
    async with Talk(tmp_path) as talk:
        assert await talk.ask(script(DONE, *talk.waits()), script(DONE, "Done.")) == ["Done.", "Done."]
        assert await talk.echoes() == 1


@pytest.mark.parametrize("text", [{"text": "Done."}, chunk("Done.")])
async def test_an_open_block_that_repeats_a_tool_ends_where_a_question_joins(tmp_path: Path, text: Json) -> None:
    async with Talk(tmp_path) as talk:
        first = script(DONE, text, *talk.waits())
        assert await talk.ask(first, script(chunk("Done."))) == ["Done.", "Done."]
        assert await talk.echoes() == 1


async def test_text_without_an_id_is_parted_where_a_question_joins(tmp_path: Path) -> None:
    async with Talk(tmp_path) as talk:
        first = script(chunk("It is blue."), *talk.waits(), chunk("It is green."))
        assert await talk.ask(first, script("And done.")) == ["It is blue.", "It is green.", "And done."]


async def test_a_message_that_goes_on_under_its_id_stays_whole(tmp_path: Path) -> None:
    async with Talk(tmp_path) as talk:
        first = script(DONE, {"text": "Do", "chunks": 1}, *talk.waits(), {"text": "ne.", "chunks": 1})
        assert await talk.ask(first, script("Done.")) == ["Done.", "Done.", "Done."]


async def test_a_prompt_that_resumes_still_owes_the_second_question_its_answer(tmp_path: Path) -> None:
    async with Talk(tmp_path) as talk:
        first = script(DONE, *talk.waits(), {"die": 9}, resume=["Done."])
        assert await talk.ask(first, "and this?") == ["Done.", "Done."]
        assert await talk.echoes() == 0


async def test_a_killed_gateway_still_owes_the_second_question_its_answer(tmp_path: Path) -> None:
    async with Talk(tmp_path) as talk:
        w = talk.world
        await w.gateway.say("s", script(DONE, {"save": True}, *talk.waits(), {"hang": True}, resume=["Done."]))
        await until(talk._is_here)
        await w.gateway.say("s", "and this?", busy="steer")
        await until(talk._joined)
        await w.stop()
        await w.start()
        await w.idle()
        assert await w.texts("s", "agent") == ["Done.", "Done."]


@pytest.mark.parametrize(
    ("again", "seen"),
    [
        ([YES], [YES, YES]),
        ([{"text": YES, "message": "a"}, {"text": YES, "message": "b"}], [YES, YES]),
        ([{"text": YES, "message": "a"}, {"text": "No.", "message": "b"}], [YES, "No."]),
    ],
)
async def test_a_restart_consumes_what_was_said_and_leaves_no_question_open(
    tmp_path: Path, again: list[Any], seen: list[str]
) -> None:
    async with Talk(tmp_path) as talk:
        first = script({"text": YES, "message": "a"}, {"text": "So", "message": "b"}, *talk.waits(), {"die": 9})
        said = await talk.ask(first, script(*again))
        assert [text for text in said if text != "So"] == seen


async def test_both_answers_leave_for_a_chat_that_gets_only_closing_texts(tmp_path: Path) -> None:
    platform = Platform()
    channel = FakeChannel("chat", Safety.IDEMPOTENT, platform)
    settings = {"chat": ChannelSettings(name="chat", kind="fake")}
    async with Talk(tmp_path, "demo:chat:room", channels={"chat": channel}, channel_settings=settings) as talk:
        await talk.ask(script(DONE, *talk.waits()), script("Done."))
        await talk.world.sent()
        assert [post.text for post in platform.log] == ["Done.", "Done."]
