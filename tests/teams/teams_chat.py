"""A gateway to which Ann writes in Teams, for tests of what people there see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from gateway_world import World
from teams_house import ANN, CHAT, TeamsHouse, teams, until

from semel.gateway.settings import ChannelSettings, PersonSettings


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
