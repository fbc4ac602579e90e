"""A whole gateway on a real homeserver: a request and a question are answered by a reaction, also across a kill."""

from __future__ import annotations

from typing import Any

import pytest
from matrix_gateway import Gateway, session_key, until, wait_for_texts
from matrix_house import House

from semel.testing import scripted_agent

pytestmark = pytest.mark.channels
ASK: dict[str, Any] = {"permission": "rm -r build", "allowed": ["tidy"], "denied": ["left it"]}


async def wait_for_reactions(house: House, room: str, event: str, count: int) -> list[str]:
    """Return the keys of the bot's reactions to an event, once there are `count`."""

    async def there() -> list[str]:
        keys = [
            one["content"]["m.relates_to"]["key"]
            for one in await house.alice.events(room)
            if one["type"] == "m.reaction" and one["sender"] == house.bot.id
            if one["content"]["m.relates_to"]["event_id"] == event
        ]
        return keys if len(keys) >= count else []

    return list(await until(there, f"{count} reactions"))


async def wait_for_edit(house: House, room: str, event: str) -> str:
    """Return the text of an event after its last edit by the bot, once there is one."""

    async def there() -> str:
        edits = [
            one["content"]["m.new_content"]["body"]
            for one in await house.alice.events(room)
            if one["content"].get("m.relates_to", {}).get("rel_type") == "m.replace"
            if one["content"]["m.relates_to"]["event_id"] == event
        ]
        return str(edits[-1]) if edits else ""

    return str(await until(there, "the edit"))


async def test_a_press_on_a_reaction_of_ours_answers_a_request_once_in_a_group(house: House, gateway: Gateway) -> None:
    room = await house.group()
    await house.alice.say(room, f"{house.bot.name}: {scripted_agent.prompt(ASK)}")
    assert "1. ✅ Allow once" in (await wait_for_texts(house, room, 1))[0]
    [asking] = [one["event_id"] for one in await house.alice.messages(room, house.bot.name)]
    keys = await wait_for_reactions(house, room, asking, 2)
    await house.bob.react(room, asking, keys[0])
    assert "/approve" in (await wait_for_texts(house, room, 2))[1], "a member may not answer"
    await house.alice.react(room, asking, keys[0])
    said = await wait_for_texts(house, room, 4)
    assert set(said[2:]) == {"Allow once, by ada: rm -r build", "tidy"}
    assert (await wait_for_edit(house, room, asking)).endswith("Allow once, by ada")
    await house.alice.react(room, asking, keys[1])
    assert "gone: Allow once, by ada" in (await wait_for_texts(house, room, 5))[4]
    await house.alice.react(room, asking, "🎉")
    await house.alice.say(room, f"{house.bot.name}: say: done")
    await wait_for_texts(house, room, 6)
    entries = await gateway.entries(session_key(room))
    assert [one["emoji"] for one in entries if one.get("kind") == "reaction"] == ["🎉"]
    gateway.kill()
    gateway.doctor()


async def test_a_press_while_the_gateway_is_away_answers_a_question_once(house: House, gateway: Gateway) -> None:
    room = await house.pair()
    question = {"call": "ask", "arguments": {"question": "Which colour?", "options": ["red", "deep blue"]}}
    await house.alice.say(room, scripted_agent.prompt(question))
    await wait_for_texts(house, room, 1)
    [asking] = [one["event_id"] for one in await house.alice.messages(room, house.bot.name)]
    gateway.kill()  # perhaps between two of its reactions
    await house.alice.react(room, asking, "2️⃣")
    await house.alice.react(room, asking, "1️⃣")
    await gateway.up()
    assert (await wait_for_edit(house, room, asking)).endswith("deep blue, by ada")
    gateway.kill()
    await gateway.up()
    await house.alice.say(room, "say: done")

    async def done() -> bool:
        return "done" in await house.alice.texts(room, house.bot.name)

    await until(done, "the last answer")
    keys = await wait_for_reactions(house, room, asking, 0)
    assert len(keys) == len(set(keys)) and set(keys) <= {"1️⃣", "2️⃣"}
    entries = await gateway.entries(session_key(room))
    heard = [one["text"] for one in entries if one["role"] == "user"]
    assert heard[1:] == ["deep blue", "say: done"]
    told = [text for text in await house.alice.texts(room, house.bot.name) if "answered already" in text]
    assert told == ["That question is answered already: deep blue, by ada."]
    gateway.kill()
    gateway.doctor()
