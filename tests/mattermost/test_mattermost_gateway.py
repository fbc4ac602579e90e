"""A gateway with a Mattermost channel: what people on a server see of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway_world import World, script
from mattermost_house import MattermostHouse, mattermost

from semel.gateway.settings import ChannelSettings, PersonSettings
from semel.testing.mattermost import BOT

ASK = {"permission": "rm -r build", "input": {"command": "rm -r build"}, "allowed": ["tidy"], "denied": ["left it"]}


@asynccontextmanager
async def server(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[World, MattermostHouse]]:
    """A gateway on a server where Ann is the owner."""
    async with mattermost(tmp_path) as house:
        ann = PersonSettings(name="ann", role="owner", accounts=(f"mattermost:{house.ann}",))
        world = World(
            tmp_path, channels={"mattermost": house.channel}, people={"ann": ann},
            channel_settings={"mattermost": ChannelSettings(name="mattermost", kind="mattermost", **settings)},
            agent={"approvals": ("owner",)},
        )  # fmt: skip
        async with world:
            async with asyncio.timeout(20):
                while not house.double.links:  # noqa: ASYNC110 - the double tells nobody of a new connection
                    await asyncio.sleep(0.01)
            yield world, house


async def shown(house: MattermostHouse, channel: str, words: str) -> dict[str, Any]:
    """The bot's post with these words, once it is there."""
    async with asyncio.timeout(20):
        while True:  # the double tells nobody when a post is there
            for post in house.double.shown(channel):
                if post["user_id"] == BOT and words in post["message"]:
                    return post
            await asyncio.sleep(0.01)


async def test_a_request_in_a_thread_is_answered_there_by_typing(tmp_path: Path) -> None:
    async with server(tmp_path) as (_, house):
        root = house.double.write(house.room, house.ann, f"@semel {script(ASK)}")
        asked = await shown(house, house.room, "The agent asks for permission: rm -r build")
        assert asked["root_id"] == root
        house.double.write(house.room, house.ann, "@semel /approve 1", root=root)
        assert (await shown(house, house.room, "tidy"))["root_id"] == root


async def test_a_reaction_in_a_thread_answers_a_request_once_though_the_answer_about_its_post_was_lost(
    tmp_path: Path,
) -> None:
    async with server(tmp_path) as (world, house):
        house.double.fail("POST /posts", "drop", after=True)
        root = house.double.write(house.room, house.ann, f"@semel {script(ASK)}")
        asked = await shown(house, house.room, "1. ✅ Allow once")
        house.double.react(asked["id"], house.bob, "white_check_mark")
        house.double.react(asked["id"], house.ann, "white_check_mark")
        assert (await shown(house, house.room, "tidy"))["root_id"] == root
        await shown(house, house.room, "\n\nAllow once, by ann")
        await world.sent()
        offered = [row["body"]["emoji_name"] for row in house.double.asked("POST /reactions")]
        assert offered == ["white_check_mark", "large_blue_circle", "x"][: len(offered)]
        house.double.react(asked["id"], house.ann, "x")
        await shown(house, house.room, "gone: Allow once, by ann")


async def test_an_answer_that_streams_is_one_post_that_grows(tmp_path: Path) -> None:
    async with server(tmp_path, stream=True) as (world, house):
        house.double.write(house.direct, house.ann, script("Once upon a time.", {"sleep": 0.1}, " The end."))
        await shown(house, house.direct, "The end.")
        await world.idle(f"demo:mattermost:{house.direct}")
        assert house.double.texts(house.direct) == ["Once upon a time. The end."]
        assert house.double.asked("/patch")  # it was seen before it was whole


async def test_a_lost_answer_is_looked_up_and_shown_once(tmp_path: Path) -> None:
    async with server(tmp_path) as (world, house):
        house.double.fail("POST /posts", "drop", after=True)
        house.double.fail("POST /posts", "502", after=True)
        for text in ("one", "two", "three"):
            house.double.write(house.direct, house.ann, script(text))
            await shown(house, house.direct, text)
        await world.sent()
        assert house.double.texts(house.direct) == ["one", "two", "three"]
