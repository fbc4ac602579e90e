"""A gateway to which Ann writes in Teams, for tests of what people there see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from gateway_world import World
from posting_double import post_deliveries
from teams_house import ANN, TeamsHouse, teams

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
            posting = asyncio.create_task(post_deliveries(world, "teams", house.double))
            try:
                yield world, house
            finally:
                posting.cancel()
                with suppress(asyncio.CancelledError):
                    await posting
