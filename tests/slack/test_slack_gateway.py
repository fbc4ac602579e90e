"""A gateway with a Slack channel: what people in a workspace see of an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from gateway_world import World, script
from slack_house import ANN, BOB, BOT, ROOM, SlackDouble, SlackHouse, slack, until

from semel.gateway.settings import ChannelSettings, PersonSettings

ASK = {"permission": "rm -r build", "input": {"command": "rm -r build"}, "allowed": ["tidy"], "denied": ["left it"]}


@asynccontextmanager
async def workspace(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[World, SlackHouse]]:
    """A gateway in a workspace where Ann is the owner and Bob a member."""
    listed = (
        PersonSettings(name="ann", role="owner", accounts=(f"slack:{ANN}",)),
        PersonSettings(name="bob", role="member", accounts=(f"slack:{BOB}",)),
    )
    async with slack(tmp_path, SlackDouble(repeat_s=0.3)) as house:
        world = World(
            tmp_path, channels={"slack": house.channel}, people={one.name: one for one in listed},
            channel_settings={"slack": ChannelSettings(name="slack", kind="slack", **settings)},
            agent={"approvals": ("owner",)},
        )  # fmt: skip
        async with world:
            await until(lambda: bool(house.double.links))
            yield world, house


async def shown(house: SlackHouse, channel: str, words: str) -> dict[str, Any]:
    """The bot's message with these words, once it is there."""
    found: list[dict[str, Any]] = []

    def there() -> bool:
        messages = [m for m in house.double.shown(channel) if m["user"] == BOT]
        texts = house.double.texts(channel)
        found[:] = [m for m, text in zip(messages, texts, strict=True) if words in text]
        return bool(found)

    await until(there)
    return found[0]


async def test_a_mention_is_answered_in_its_thread_and_goes_on_there(tmp_path: Path) -> None:
    async with workspace(tmp_path) as (_, house):
        root = house.double.write(ROOM, ANN, f"<@{BOT}> {script('Hello Ann.')}")
        assert (await shown(house, ROOM, "Hello Ann."))["thread_ts"] == root
        house.double.write(ROOM, BOB, script("Hello Bob."), thread=root)
        assert (await shown(house, ROOM, "Hello Bob."))["thread_ts"] == root
        house.double.post_again()
        await until(lambda: not house.double.pending)
        assert house.double.texts(ROOM) == ["Hello Ann.", "Hello Bob."]


async def test_a_request_is_allowed_by_a_press_once_and_the_channel_reads_by_whom(tmp_path: Path) -> None:
    async with workspace(tmp_path) as (_, house):
        root = house.double.write(ROOM, BOB, f"<@{BOT}> {script(ASK)}")
        asked = deepcopy(await shown(house, ROOM, "The agent asks for permission: rm -r build"))
        house.double.press(ROOM, asked["ts"], "Allow once", BOB)
        await shown(house, ROOM, "/approve: ")  # only the owner may
        house.double.press(ROOM, asked["ts"], "Allow once", ANN)
        assert (await shown(house, ROOM, "Allow once, by ann: rm -r build"))["thread_ts"] == root
        await shown(house, ROOM, "tidy")
        answered = await shown(house, ROOM, "\n\nAllow once, by ann")
        assert answered["ts"] == asked["ts"] and [block["type"] for block in answered["blocks"]] == ["markdown"]
        house.double.press(ROOM, asked["ts"], "Allow once", ANN, seen=asked)
        await shown(house, ROOM, "That request is gone: Allow once, by ann")


async def test_a_question_is_answered_by_a_press(tmp_path: Path) -> None:
    async with workspace(tmp_path) as (world, house):
        question = {"call": "ask", "arguments": {"question": "Which?", "options": ["red", "blue"]}}
        house.double.write(house.direct, ANN, script(question))
        asked = await shown(house, house.direct, "Which?")
        for label in ("blue", "red"):
            house.double.press(house.direct, asked["ts"], label, ANN)
        await until(lambda: not house.double.pending)
        await world.idle(f"demo:slack:{house.direct}")
        entries = await world.entries(f"demo:slack:{house.direct}")
        assert [entry["text"] for entry in entries if entry["role"] == "user"][1:] == ["blue"]


async def test_an_answer_that_streams_is_one_message_that_grows(tmp_path: Path) -> None:
    async with workspace(tmp_path, stream=True) as (world, house):
        house.double.write(house.direct, ANN, script("Once upon a time.", {"sleep": 0.1}, " The end."))
        await shown(house, house.direct, "The end.")
        await world.idle(f"demo:slack:{house.direct}")
        assert house.double.texts(house.direct) == ["Once upon a time. The end."]
        assert house.asked("chat.update")  # it was seen before it was whole


async def test_a_lost_answer_is_looked_up_and_shown_once(tmp_path: Path) -> None:
    async with workspace(tmp_path) as (world, house):
        house.double.fail("chat.postMessage", "drop", after=True)
        house.double.fail("chat.postMessage", "502", after=True)
        for text in ("one", "two", "three"):
            house.double.write(house.direct, ANN, script(text))
            await shown(house, house.direct, text)
        await world.sent()
        assert house.double.texts(house.direct) == ["one", "two", "three"]
