"""Buttons under a message, and what a press is: a message of the person who pressed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from telegram_house import ANNA, FORUM, TelegramHouse

from semel.channels.telegram.send import MAX_LABEL_CHARS
from semel.gateway.ports import Button, Op, Person

BEN = 8
BUTTONS = (Button("Allow once", "/approve 7", "allow"), Button("Always", "/approve 8"), Button("No", "/deny 9", "deny"))


async def sent_with_buttons(there: TelegramHouse, **more: object) -> tuple[Op, int]:
    """A request whose place was reserved, as it leaves at a platform that is at-most-once."""
    placeholder = there.op("…", **more)
    receipt = await there.channel.send(placeholder)
    op = replace(placeholder, kind="edit", text="May I?", target=receipt.id, buttons=BUTTONS)
    assert (await there.channel.send(op)).id == receipt.id
    return op, int(receipt.id.partition("/")[2])


async def test_buttons_come_with_the_text_and_stay_if_that_is_sent_again(there: TelegramHouse) -> None:
    there.double.write(ANNA, "hello")
    op, id = await sent_with_buttons(there)
    await there.channel.send(op)
    [shown] = [message for message in there.double.shown(ANNA) if message["id"] == id]
    assert (shown["text"], shown["buttons"]) == ("May I?", [["Allow once", "Always"], ["No"]])
    posted = await there.channel.send(there.op("Whole?", buttons=(Button("x" * 100, "y"),)))
    assert there.double.shown(ANNA)[-1]["buttons"] == [["x" * (MAX_LABEL_CHARS - 1) + "…"]], posted


async def test_the_buttons_of_a_request_that_is_over_are_taken_away_by_an_edit(there: TelegramHouse) -> None:
    there.double.write(ANNA, "hello")
    op, id = await sent_with_buttons(there)
    assert there.channel.caps.button_edits
    await there.channel.send(replace(op, text="May I?\n\nAllow once, by ada", buttons=()))
    [shown] = [message for message in there.double.shown(ANNA) if message["id"] == id]
    assert (shown["text"], shown.get("buttons")) == ("May I?\n\nAllow once, by ada", None)


async def test_a_press_is_a_message_of_who_pressed_and_is_acknowledged_after_the_commit(there: TelegramHouse) -> None:
    there.double.write(ANNA, "hello")
    await there.online()
    _, id = await sent_with_buttons(there)
    press = there.double.press(ANNA, id, "Allow once")
    heard = (await there.hear(2))[-1]
    assert (heard.kind, heard.key, heard.text) == ("message", f"press:{press}", "/approve 7")
    assert (heard.of, heard.address, heard.sender) == (f"{ANNA}/{id}", str(ANNA), Person(str(ANNA), "Anna Arendt"))
    assert (heard.mentioned, heard.group) == (True, False)
    async with asyncio.timeout(10):
        while not there.double.presses[press]:  # noqa: ASYNC110 - plain state of the double
            await asyncio.sleep(0.01)


async def test_presses_in_a_topic_of_a_group_stay_there_and_those_of_a_question_share_a_key(
    there: TelegramHouse,
) -> None:
    there.double.person(BEN, "Ben", "ben")
    there.double.group(FORUM, "Forum", forum=True, status="administrator")
    topic = there.double.topic(FORUM, "Garden")
    await there.online()
    to = f"{FORUM}:topic-{topic}"
    receipt = await there.channel.send(there.op("Which?", to=to, buttons=(Button("A", "a"), Button("B", "b"))))
    id = int(receipt.id.partition("/")[2])
    there.double.press(FORUM, id, "B", sender=BEN)
    there.double.press(FORUM, id, "A", sender=ANNA)
    there.double.write(FORUM, "later", sender=BEN, topic=topic)
    first, later = await there.hear(2)  # this inbox keeps the first event of a key, as the gateway does
    assert (first.address, first.key, first.group) == (to, f"pressed:{receipt.id}", True)
    assert (first.text, first.sender, later.text) == ("b", Person(str(BEN), "Ben"), "later")


@pytest.mark.parametrize("query", [{}, {"message": None, "data": "x"}, {"inline_message_id": "1", "data": "x"}])
async def test_a_press_elsewhere_is_ignored(there: TelegramHouse, query: dict[str, object]) -> None:
    there.double.write(ANNA, "hello")
    await there.online()
    there.double.update("callback_query", {"id": "1", "from": {"id": ANNA, "first_name": "Anna"}, **query})
    there.double.write(ANNA, "after")
    assert [event.text for event in await there.hear(2)] == ["hello", "after"]
