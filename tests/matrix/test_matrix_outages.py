"""A real homeserver that hangs, dies and comes back."""

from __future__ import annotations

import asyncio

import pytest
from matrix_house import House, messages, op, until

from semel.gateway.ports import Incoming, NotSent, Offline, Unknown

pytestmark = pytest.mark.channels


async def test_what_left_for_a_homeserver_that_hung_is_shown_once(house: House) -> None:
    room, channel = await house.pair(), house.channel(timeout=2.0)
    async with house.running(channel) as inbox:
        await house.alice.say(room, "hello")
        await inbox.wait(1)
        part = op(room, "once")
        await channel.send(op(room, "before"))
        house.server.process.pause()
        try:
            with pytest.raises(Unknown, match="did not answer"):
                await channel.send(part)
        finally:
            house.server.process.resume()
        receipt = await channel.send(part)
        assert await channel.send(part) == receipt
    assert await house.alice.texts(room, house.bot.name) == ["before", "once"]


async def test_a_homeserver_that_dies_is_lost_and_nothing_of_it_when_it_comes_back(house: House) -> None:
    room, channel, inbox = await house.pair(), house.channel(), house.inbox()
    run = asyncio.create_task(channel.run(inbox))
    await inbox.wait_online()
    before = op(room, "said before")
    receipt = await channel.send(before)
    await house.alice.say(room, "heard before")
    await until(inbox, messages_of)
    await asyncio.to_thread(house.server.process.kill)
    with pytest.raises(Offline):
        await asyncio.wait_for(run, 60.0)
    with pytest.raises(NotSent):
        await channel.send(op(room, "lost?"))
    await asyncio.to_thread(house.server.restart)
    assert await channel.send(before) == receipt, "the homeserver remembers transaction ids over its own death"
    await house.alice.say(room, "heard after")
    async with house.running(channel, inbox):
        await until(inbox, lambda events: messages_of(events)[1:])
    assert [one.text for one in messages(inbox)] == ["heard before", "heard after"]
    assert await house.alice.texts(room, house.bot.name) == ["said before"]


def messages_of(events: list[Incoming]) -> list[Incoming]:
    return [event for event in events if event.kind == "message"]
