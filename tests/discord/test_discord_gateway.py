"""A gateway with a Discord bot: what people write, command and press there, and what they see of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from discord_house import ANN, BOB, DiscordHouse, discord, until
from gateway_world import World, script

from semel.gateway.settings import ChannelSettings, PersonSettings
from semel.ledger.delivery import parts
from semel.testing.discord import BOT

PEOPLE = {
    "ann": PersonSettings(name="ann", role="owner", accounts=(f"dc:{ANN}",)),
    "bob": PersonSettings(name="bob", role="member", accounts=(f"dc:{BOB}",)),
}


@asynccontextmanager
async def gateway(tmp_path: Path) -> AsyncIterator[tuple[DiscordHouse, World]]:
    settings = {"dc": ChannelSettings(name="dc", kind="discord")}
    async with (
        discord(tmp_path) as house,
        World(tmp_path, channels={"dc": house.channel}, people=PEOPLE, channel_settings=settings) as world,
    ):
        await until(lambda: house.double.sessions.identified > 0)
        yield house, world


async def shown(house: DiscordHouse, words: str, channel: str = "") -> str:
    """Our message with these words, once it is there."""
    place = channel or house.direct
    await until(lambda: any(words in text for text in house.double.texts(place)))
    return next(text for text in house.double.texts(place) if words in text)


async def test_a_message_a_command_and_a_request_are_answered_where_they_came_from(tmp_path: Path) -> None:
    async with gateway(tmp_path) as (house, _):
        double, room = house.double, house.room
        double.write(room, ANN, f"<@{BOT}> " + script({"permission": "rm -r build", "allowed": ["tidy"]}))
        await shown(house, "asks for permission", room)
        [message] = [body for body in double.shown(room) if body.get("components")]
        assert message["components"][0]["components"][0]["label"] == "Allow once"
        double.press(room, BOB, message["id"], "/approve 1")  # a member may not
        await shown(house, "/approve: ", room)
        double.press(room, ANN, message["id"], "/approve 1")
        assert await shown(house, "Allow once, by ann:", room) == "Allow once, by ann: rm -r build"
        await shown(house, "tidy", room)
        await shown(house, "\n\nAllow once, by ann", room)
        [answered] = [body for body in double.shown(room) if body["id"] == message["id"]]
        assert answered["components"] == [] and answered["content"].endswith("Allow once, by ann")
        double.press(room, ANN, message["id"], "/approve 1")  # by a client that shows the button still
        await shown(house, "That request is gone: Allow once, by ann", room)
        double.command(house.direct, ANN, "status")
        assert "Agent: demo" in await shown(house, "Session ")


async def test_a_lost_answer_is_settled_by_the_event_of_our_own_message(tmp_path: Path) -> None:
    async with gateway(tmp_path) as (house, world):
        house.double.fail("POST */messages", "drop", after=True)
        house.double.write(house.direct, ANN, "hello")
        await shown(house, "hello")
        await world.sent()
        assert [part["state"] for part in await world.gateway.record.read(parts.list_newest)] == ["sent"]
        assert [row["status"] for row in house.double.asked(f"POST /channels/{house.direct}/messages")] == [None]
