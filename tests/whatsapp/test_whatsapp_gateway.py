"""A gateway with a WhatsApp channel: what people there see of an agent, and what becomes of lost answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script
from posting_double import find_shown, post_deliveries
from whatsapp_house import ANN, WhatsAppDouble, until, whatsapp

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
            posting = asyncio.create_task(post_deliveries(world, "whatsapp", house.double))
            try:
                yield world, house
            finally:
                posting.cancel()
                with suppress(asyncio.CancelledError):
                    await posting


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
        asked = await find_shown(house.double, ANN, "The agent asks for permission: rm -r build")
        house.double.press(ANN, asked, "Allow once")
        await find_shown(house.double, ANN, "tidy")
        house.double.press(ANN, asked, "Allow once")
        await find_shown(house.double, ANN, "That request is gone")
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
            await find_shown(house.double, ANN, text)
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
        await find_shown(house.double, ANN, "one")
        house.clock.now += 25 * 3600.0
        await world.gateway.say(SESSION, script("two"), key="k")
        [_, part] = await parts(world, lambda them: [part["state"] for part in them][1:] == ["rejected"])
        assert "more than 24 hours ago" in part["error"]
