"""What a block says, part by part, and what the agent is told of a part that was held back (Laws 5, 6, 12)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, destination, script, until

from fewer_cases import cross
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.testing import FakeChannel, Platform
from semel.testing.scripted_agent import read_prompts

Json = dict[str, Any]
ROOM = "demo:chat:room"


def send(text: str, **arguments: Any) -> Json:
    return {"call": "send_message", "arguments": {"text": text, **arguments}}


class Chat:
    """A gateway whose session has its home in a chat, and may write to `family`."""

    def __init__(self, path: Path, narration: Any = "last", **settings: Any) -> None:
        self.platform = Platform()
        channel = FakeChannel("chat", Safety.IDEMPOTENT, self.platform)
        self.world = World(
            path, channels={"chat": channel}, destinations=destination("family", "fam"),
            channel_settings={"chat": ChannelSettings(name="chat", kind="fake", narration=narration)},
            log=path / "prompts", **settings,
        )  # fmt: skip
        self.path = path

    async def __aenter__(self) -> Chat:
        await self.world.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.world.balanced()
        finally:
            await self.world.stop()

    async def ask(self, text: str) -> list[str]:
        """What the room shows when the turn is over."""
        await self.world.ask(text, ROOM)
        await self.world.sent()
        return [post.text for post in self.platform.log]

    def told(self) -> str:
        """The agent's newest prompt."""
        return read_prompts(self.path / "prompts")[-1].text


NARRATIONS = pytest.mark.parametrize("narration", ["last", "all"])


JUDGED = [
    ('<message to="home">X</message>36And I looked', ["X", "36And I looked"]),
    ('36And I looked<message to="home">X</message>', ["X", "36And I looked"]),
    ('two<message to="home">X</message>one', ["X", "two", "one"]),
    ('X<message to="family">hi</message>X', ["X"]),
    ('<message to="HOME">one</message><message to="home">two</message>', ["X", "one", "two"]),
    ('<message to="home">X and more</message>', ["X", "X and more"]),
]


@pytest.mark.parametrize(("block", "shown", "narration"), cross(JUDGED, ["last", "all"]))
async def test_each_part_of_a_block_is_judged_for_itself(
    tmp_path: Path, narration: str, block: str, shown: list[str]
) -> None:
    async with Chat(tmp_path, narration) as chat:
        assert await chat.ask(script(send("X"), {"text": block, "chunks": 9})) == shown
        said = [e["text"] for e in await chat.world.entries(ROOM) if e["role"] == "agent" and "to" not in e]
        assert said == shown


@NARRATIONS
async def test_the_parts_of_a_block_reach_their_places_in_the_order_of_the_text(tmp_path: Path, narration: str) -> None:
    async with Chat(tmp_path, narration) as chat:
        await chat.world.ask(script("hi"), "fam")
        text = 'First.\n<message to="family">Second.</message>\n\nThird.\n<internal>no</internal>\nStill third.'
        assert await chat.ask(script({"text": text, "chunks": 30})) == ["First.\n", "Third.\n\nStill third."]
        assert (await chat.world.texts("fam"))[-1] == "Second."


@pytest.mark.parametrize("stop", ["end_turn", "max_tokens"])
@NARRATIONS
async def test_a_block_for_home_that_was_never_closed_is_delivered(tmp_path: Path, narration: str, stop: str) -> None:
    async with Chat(tmp_path, narration) as chat:
        shown = await chat.ask(script({"text": 'Hm. <message to="Home">Dear Ann', "chunks": 5}, stop=stop))
        cut = ["The answer was cut off at the model's token limit."] if stop == "max_tokens" else []
        assert shown == ["Hm. ", "Dear Ann", *cut]
        assert len(read_prompts(tmp_path / "prompts")) == 1, "nothing was held back"


HELD_BACK = [
    ('<message to="family">please call', "was never closed with </message>"),
    ('<message to="nobody">please call', "was never closed with </message>"),
    ('<message to="home">see <message to="family">please call</message>', "was never closed with </message>"),
    ("<internal>please call", "was never closed with </internal>"),
    ('<message to="nobody">please call</message>', "no destination is called 'nobody'"),
    ('<message to="family', "the tag cannot be read"),
]


@pytest.mark.parametrize(("text", "reason", "stop"), cross(HELD_BACK, ["end_turn", "max_tokens"]))
async def test_a_text_that_was_held_back_is_corrected_once_and_people_get_an_answer(
    tmp_path: Path, text: str, reason: str, stop: str
) -> None:
    async with Chat(tmp_path) as chat:
        shown = await chat.ask(script({"text": text, "chunks": 7}, stop=stop, resume=["I could not reach them."]))
        assert shown[-1] == "I could not reach them."
        assert reason in chat.told()
        assert "nothing of this turn was delivered yet" in chat.told()
        assert not [text for text in shown if "please call" in text]


@pytest.mark.parametrize(
    "again", [['<message to="nobody">once more'], ["<internal>hm"], [{"think": "hm"}], [{"tool": "look"}]]
)
async def test_people_in_a_chat_are_told_of_a_text_that_was_held_back_for_good(
    tmp_path: Path, again: list[Any]
) -> None:
    async with Chat(tmp_path) as chat:
        shown = await chat.ask(script('<message to="nobody">please call</message>', resume=again))
        assert [text for text in shown if text.startswith("Something the agent wrote was held back: ")]
        assert len(read_prompts(tmp_path / "prompts")) == 2, "it is asked once"


@NARRATIONS
async def test_the_agent_is_told_per_destination_what_was_delivered_and_what_was_not(
    tmp_path: Path, narration: str
) -> None:
    async with Chat(tmp_path, narration) as chat:
        await chat.world.ask(script("hi"), "fam")
        wrong = 'Hello Ann. <message to="FAMILY">Dinner?</message><message to="fmaily">At eight.</message>'
        right = 'Hello  Ann.\n<message to="family">Dinner?</message><message to="family">At eight.</message>'
        shown = await chat.ask(script(send("On it."), wrong, resume=[{"text": right, "chunks": 12}]))
        assert shown == ["On it.", "Hello Ann. "]
        assert (await chat.world.texts("fam", "agent"))[1:] == ["Dinner?", "At eight."]
        told = chat.told()
        for name, text in (("home", "On it."), ("home", "Hello Ann. "), ("family", "Dinner?")):
            assert re.search(rf"- already said to {name}(, and [^:]+)?: {re.escape(repr(text))}\n", told), told
        assert "- not delivered, because no destination is called 'fmaily': 'At eight.'\n" in told
        assert "nothing of this turn" not in told


async def test_after_a_correction_a_text_is_an_echo_as_often_as_it_was_said(tmp_path: Path) -> None:
    async with Chat(tmp_path, "all") as chat:
        wrong = 'ha<message to="nobody">x</message>'
        again = [{"text": "ha"}, {"tool": "breathe"}, {"text": "ha"}]
        assert await chat.ask(script(wrong, resume=again)) == ["ha", "ha"]


async def test_a_text_that_is_said_by_a_tool_after_a_correction_is_an_echo_too(tmp_path: Path) -> None:
    async with Chat(tmp_path) as chat:
        wrong = 'Hello Ann. <message to="nobody">x</message>'
        assert await chat.ask(script(wrong, resume=[send("Hello Ann."), "Nobody is there."])) == [
            "Hello Ann. ", "Nobody is there.",
        ]  # fmt: skip


async def test_what_was_cut_off_by_a_stop_is_not_corrected(tmp_path: Path) -> None:
    async with Chat(tmp_path) as chat:
        shown = await chat.ask(script('<message to="nobody">x', stop="cancelled", resume=["never"]))
        assert "never" not in shown


@pytest.mark.parametrize("written", ["FAMILY", " Family ", "family"])
async def test_a_name_is_read_alike_by_tool_and_block(tmp_path: Path, written: str) -> None:
    async with Chat(tmp_path) as chat:
        await chat.world.ask(script("hi"), "fam")
        block = f'<message to="{written}">By block.</message>'
        await chat.ask(script(send("By tool.", to=written), block))
        assert (await chat.world.texts("fam", "agent"))[1:] == ["By tool.", "By block."]


@NARRATIONS
async def test_the_home_may_be_addressed_by_the_name_it_has_elsewhere(tmp_path: Path, narration: str) -> None:
    async with Chat(
        tmp_path,
        narration,
    ) as chat:
        chat.world.gateway.places.destinations["ann"] = destination("ann", "room", "chat")["ann"]
        text = 'One.<message to="Ann">Two.</message>Three.<message to="chat:room">X</message>'
        assert await chat.ask(script(send("X"), {"text": text, "chunks": 30})) == ["X", "One.", "Two.", "Three."]
        said = [e["text"] for e in await chat.world.entries(ROOM) if e["role"] == "agent"]
        assert said == ["X", "One.", "Two.", "Three."]


@NARRATIONS
async def test_a_restart_that_says_the_same_parts_again_says_each_of_them_once(tmp_path: Path, narration: str) -> None:
    block = {"text": 'One.<message to="home">Two.</message>Three.', "chunks": 9, "message": "a"}
    dies = [block, {"text": "So", "message": "b"}, {"die": 9}]
    async with Chat(tmp_path, narration) as chat:
        shown = await chat.ask(script(attempts=[dies, [block]]))
        assert [text for text in shown if text != "So"] == ["One.", "Two.", "Three."]
        said = [e["text"] for e in await chat.world.entries(ROOM) if e["role"] == "agent" and e["text"] != "So"]
        assert said == ["One.", "Two.", "Three."]


async def test_a_killed_gateway_says_each_part_once(tmp_path: Path) -> None:
    block = {"text": 'One.<message to="home">Two.</message>Three.', "chunks": 9, "message": "a"}
    waits = [block, {"text": "So", "message": "b"}, {"touch": str(tmp_path / "here")}, {"hang": True}]
    async with Chat(tmp_path, "all") as chat:
        await chat.world.gateway.say(ROOM, script(attempts=[waits, [block]]))

        async def here() -> bool:
            return (tmp_path / "here").exists()

        await until(here)
        await chat.world.stop()
        await chat.world.start()
        await chat.world.idle(ROOM)
        await chat.world.sent()
        assert [post.text for post in chat.platform.log if post.text != "So"] == ["One.", "Two.", "Three."]
