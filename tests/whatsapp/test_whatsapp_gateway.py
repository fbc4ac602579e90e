"""A gateway with a WhatsApp channel: what people there see of an agent, and what becomes of lost answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script
from whatsapp_house import ANN, WhatsAppDouble, WhatsAppHouse, until, whatsapp

from semel.gateway.settings import ChannelSettings, PersonSettings

ASK = {"permission": "rm -r build", "input": {"command": "rm -r build"}, "allowed": ["tidy"], "denied": ["left it"]}
SESSION = f"demo:whatsapp:{ANN}"


@asynccontextmanager
async def chat(tmp_path: Path, double: WhatsAppDouble | None = None, **settings: Any) -> AsyncIterator[Any]:
    """A gateway to which Ann, the owner, writes over WhatsApp. Yields it and the house of the double."""
    ann = PersonSettings(name="ann", role="owner", accounts=(f"whatsapp:{ANN}",))
    async with whatsapp(tmp_path, double, **settings) as house:
        world = World(
            tmp_path, channels={"whatsapp": house.channel}, people={"ann": ann}, agent={"approvals": ("owner",)},
            channel_settings={"whatsapp": ChannelSettings(name="whatsapp", kind="whatsapp")},
        )  # fmt: skip
        async with world:
            posting = asyncio.create_task(post(world, house))
            try:
                yield world, house
            finally:
                posting.cancel()
                with suppress(asyncio.CancelledError):
                    await posting


async def post(world: World, house: WhatsAppHouse) -> None:
    """Post what Meta has to the gateway, again and again until it is taken."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(0.01)
        if (delivery := house.double.next_delivery(loop.time())) is not None:
            headers, body = house.double.make_request(delivery.payload)
            lowered = {name.lower(): value for name, value in headers.items()}
            status, _ = await world.gateway.hook("whatsapp", lowered, body)
            house.double.note_delivery(delivery, status, loop.time())


async def shown(house: WhatsAppHouse, words: str) -> str:
    """The id of our message with these words, once it is there."""
    found: list[str] = []

    def there() -> bool:
        texts = zip(house.double.shown(ANN), house.double.texts(ANN), strict=True)
        found[:] = [message["id"] for message, text in texts if words in text]
        return bool(found)

    await until(there)
    return found[0]


async def parts(world: World, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """The parts in order, once this holds of them."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = reversed(await world.gateway.parts())
        return holds(found)

    await until(there)
    return found


async def test_a_request_is_answered_by_a_button_once_and_repeats_of_meta_change_nothing(tmp_path: Path) -> None:
    async with chat(tmp_path) as (world, house):
        house.double.write(ANN, script(ASK))
        asked = await shown(house, "The agent asks for permission: rm -r build")
        house.double.press(ANN, asked, "Allow once")
        await shown(house, "tidy")
        house.double.press(ANN, asked, "Allow once")
        await shown(house, "That request is gone")
        texts = house.double.texts(ANN)
        house.double.post_again()
        await until(lambda: not house.double.deliveries)
        await world.idle(SESSION)
        assert house.double.texts(ANN) == texts


@pytest.mark.channels
async def test_a_lost_answer_is_settled_by_the_report_and_shown_once(tmp_path: Path) -> None:
    async with chat(tmp_path, settle=20.0) as (world, house):
        house.double.fail("messages", "drop", after=True)
        house.double.fail("messages", "502", after=True)
        for text in ("one", "two", "three"):
            house.double.write(ANN, script(text))
            await shown(house, text)
        await world.sent()
        assert house.double.texts(ANN) == ["one", "two", "three"]


@pytest.mark.channels
async def test_a_message_without_a_report_is_held_until_one_comes(tmp_path: Path) -> None:
    async with chat(tmp_path, WhatsAppDouble(statuses=False)) as (world, house):
        house.double.fail("messages", "drop", after=True)
        house.double.write(ANN, script("one"))
        await parts(world, lambda them: [part["state"] for part in them] == ["held"])
        [sent] = house.double.sent
        house.double.statuses = True
        house.double._report(sent, "delivered")
        [part] = await parts(world, lambda them: [part["state"] for part in them] == ["sent"])
        assert part["receipt"] == sent and house.double.texts(ANN) == ["one"]


@pytest.mark.channels
async def test_what_fails_after_24_hours_is_told(tmp_path: Path) -> None:
    async with chat(tmp_path) as (world, house):
        house.double.write(ANN, script("one"))
        await shown(house, "one")
        house.clock.now += 25 * 3600.0
        await world.gateway.say(SESSION, script("two"), key="k")
        [_, part] = await parts(world, lambda them: [part["state"] for part in them][1:] == ["rejected"])
        assert "more than 24 hours ago" in part["error"]
