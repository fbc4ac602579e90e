"""A gateway with a Teams channel: what people there see of an agent, and what becomes of lost answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from gateway_world import World, script
from teams_house import ANN, CHAT, TeamsHouse, teams, until

from semel.gateway.settings import ChannelSettings, PersonSettings

ASK = {"permission": "rm -r build", "input": {"command": "rm -r build"}, "allowed": ["tidy"], "denied": ["left it"]}


@asynccontextmanager
async def chat(tmp_path: Path) -> AsyncIterator[tuple[World, TeamsHouse]]:
    """A gateway to which Ann, the owner, writes in Teams. Yields it and the house of the double."""
    ann = PersonSettings(name="ann", role="owner", accounts=(f"teams:{ANN}",))
    async with teams(tmp_path) as house:
        world = World(
            tmp_path, channels={"teams": house.channel}, people={"ann": ann}, agent={"approvals": ("owner",)},
            channel_settings={"teams": ChannelSettings(name="teams", kind="teams")},
        )  # fmt: skip
        async with world:
            posting = asyncio.create_task(post(world, house))
            try:
                yield world, house
            finally:
                posting.cancel()
                with suppress(asyncio.CancelledError):
                    await posting


async def post(world: World, house: TeamsHouse) -> None:
    """Post what Teams has to the gateway."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(0.01)
        if (delivery := house.double.next_delivery(loop.time())) is not None:
            headers, body = house.double.make_request(delivery.payload)
            lowered = {name.lower(): value for name, value in headers.items()}
            status, _ = await world.gateway.hook("teams", lowered, body)
            house.double.note_delivery(delivery, status, loop.time())


async def shown(house: TeamsHouse, words: str, address: str = CHAT) -> str:
    """Teams' id of our message with these words, once it is there."""
    found: list[str] = []

    def there() -> bool:
        texts = zip(house.double.shown(address), house.double.texts(address), strict=True)
        found[:] = [message["id"] for message, text in texts if words in text]
        return bool(found)

    await until(there)
    return found[0]


async def test_a_request_is_answered_by_a_button_once_and_says_by_whom(tmp_path: Path) -> None:
    async with chat(tmp_path) as (_, house):
        house.double.write(ANN, script(ASK))
        asked = await shown(house, "The agent asks for permission: rm -r build")
        await until(lambda: bool(house.double.buttons(asked)))
        stale = house.double.sent[asked]["message"]
        house.double.press(ANN, asked, "Allow once")
        await shown(house, "tidy")
        await until(lambda: house.double.buttons(asked) == [])
        assert "ann" in house.double.texts(CHAT)[0].lower()
        house.double.sent[asked]["message"] = stale  # who has not seen the edit yet
        house.double.press(ANN, asked, "Allow once")
        await shown(house, "That request is gone")
        assert len([text for text in house.double.texts(CHAT) if text == "tidy"]) == 1


async def test_a_lost_answer_leaves_a_placeholder_at_worst_and_holds_nothing(tmp_path: Path) -> None:
    async with chat(tmp_path) as (world, house):
        house.double.fail("post", "drop", after=True)
        house.double.fail("edit", "502", after=True)
        house.double.write(ANN, script("one"))
        await shown(house, "one")

        async def is_sent() -> bool:
            return {part["state"] for part in await world.gateway.parts()} == {"sent"}

        await until(is_sent)
        assert sorted(house.double.texts(CHAT)) == ["one", "…"]


async def test_each_thread_is_a_session_and_is_answered_in_its_place(tmp_path: Path) -> None:
    async with chat(tmp_path) as (_, house):
        roots = [house.double.write(ANN, script(text), address=house.garden) for text in ("roses", "leaves")]
        for root, text in zip(roots, ("roses", "leaves"), strict=True):
            await shown(house, text, f"{house.garden};messageid={root}")
        house.double.write(ANN, script("thorns"), address=f"{house.garden};messageid={roots[0]}")
        thread = f"{house.garden};messageid={roots[0]}"
        await shown(house, "thorns", thread)
        assert house.double.texts(thread) == ["roses", "thorns"]
