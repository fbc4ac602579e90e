"""A platform's double that posts to a gateway: let it post, and wait for what its people see of the agent."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway_world import World, until


async def post_deliveries(world: World, channel: str, double: Any) -> None:
    """Post what a double has to a channel of the gateway, again and again until it is taken."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(0.01)
        if (delivery := double.next_delivery(loop.time())) is not None:
            headers, body = double.make_request(delivery.payload)
            lowered = {name.lower(): value for name, value in headers.items()}
            status, _ = await world.gateway.hook(channel, lowered, body)
            double.note_delivery(delivery, status, loop.time())


async def find_shown(double: Any, address: str, words: str) -> str:
    """Return the platform's id of our message there with these words, once people see it."""
    ids: list[str] = []

    async def is_there() -> bool:
        messages = zip(double.shown(address), double.texts(address), strict=True)
        ids[:] = [message["id"] for message, text in messages if words in text]
        return bool(ids)

    await until(is_there)
    return ids[0]
