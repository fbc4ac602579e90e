"""A whole gateway with the scripted agent on a real homeserver: people talk, it is killed, and all is said once."""

from __future__ import annotations

import asyncio

import pytest
from matrix_gateway import Gateway, session_key, until, wait_for_texts
from matrix_house import House
from synapse import Refused

from semel.testing import scripted_agent

pytestmark = pytest.mark.channels


async def test_alice_invites_talks_edits_reacts_and_sends_a_file(house: House, gateway: Gateway) -> None:
    room = await house.alice.create_room(invite=[house.bot.name])
    hello = await house.alice.say(room, "say: hello Alice")
    assert await wait_for_texts(house, room, 1) == ["hello Alice"]
    await house.alice.edit(room, hello, "say: hello again")
    await house.alice.react(room, hello, "👍")
    mxc = await house.alice.upload(b"a,b\n1,2\n", "table.csv", "text/csv")
    file = {"msgtype": "m.file", "body": "say: got it", "filename": "table.csv", "url": mxc}
    await house.alice.send(room, "m.room.message", file)
    assert await wait_for_texts(house, room, 2) == ["hello Alice", "got it"]
    entries = [(one["role"], one.get("kind"), one.get("text")) for one in await gateway.entries(session_key(room))]
    assert [one for one in entries if one[0] != "notice"] == [
        ("user", None, "say: hello Alice"),
        ("agent", None, "hello Alice"),
        ("user", "edit", "say: hello again"),
        ("user", "reaction", "👍"),
        ("user", None, "say: got it"),
        ("agent", None, "got it"),
    ]
    [received] = (gateway.home / "data" / "workspaces" / "main" / ".semel" / "received").iterdir()
    assert received.read_bytes() == b"a,b\n1,2\n"


async def test_the_agent_reacts_sends_a_file_and_answers_in_a_thread(house: House, gateway: Gateway) -> None:
    room = await house.group()
    react = scripted_agent.prompt({"call": "add_reaction", "arguments": {"emoji": "🎉"}}, "I reacted to it.")
    hello = await house.alice.say(room, f"{house.bot.id}: {react}", **{"m.mentions": {"user_ids": [house.bot.id]}})
    await wait_for_texts(house, room, 1)
    related = {"rel_type": "m.thread", "event_id": hello, "is_falling_back": True, "m.in_reply_to": {"event_id": hello}}
    await house.alice.say(room, f"{house.bot.name}: say: in the thread", **{"m.relates_to": related})
    await wait_for_texts(house, room, 2)
    workspace = gateway.home / "data" / "workspaces" / "main"
    (workspace / "report.txt").write_text("all is well")
    send = scripted_agent.prompt({"call": "send_file", "arguments": {"path": "report.txt"}}, "I sent the file.")
    await house.alice.say(room, f"{house.bot.name}: {send}")
    await wait_for_texts(house, room, 4)
    events = [event for event in await house.alice.events(room) if event["sender"] == house.bot.id]
    [reaction] = [event["content"]["m.relates_to"] for event in events if event["type"] == "m.reaction"]
    assert (reaction["event_id"], reaction["key"]) == (hello, "🎉")
    said = [event["content"] for event in events if event["type"] == "m.room.message"]
    [inside] = [one for one in said if one["body"] == "in the thread"]
    assert (inside["m.relates_to"]["rel_type"], inside["m.relates_to"]["event_id"]) == ("m.thread", hello)
    [sent] = [one for one in said if one["msgtype"] == "m.file"]
    assert await house.alice.download(sent["url"]) == b"all is well"
    thread = await gateway.entries(session_key(f"{room}:thread-{hello[1:]}"))
    assert thread[-1]["text"] == "in the thread"


async def test_a_group_is_read_along_and_answered_where_it_is_asked(house: House, gateway: Gateway) -> None:
    room = await house.group()
    await house.bob.say(room, "nobody asked the bot")
    await house.alice.say(room, f"{house.bot.name}: say: you called?")
    assert await wait_for_texts(house, room, 1) == ["you called?"]
    [event] = await house.alice.messages(room, house.bot.name)
    assert event["content"]["m.relates_to"]["m.in_reply_to"], "in a group it is marked what is answered"


async def test_a_destination_is_a_person_who_is_asked_into_a_room(house: House, gateway: Gateway) -> None:
    room = await house.alice.create_room(invite=[house.bot.name])
    script = (
        '[[script {"steps": [{"call": "send_message", "arguments": {"to": "ben", "text": "Ben, look"}}, "told him"]}]]'
    )
    await house.alice.say(room, script)
    assert await wait_for_texts(house, room, 1) == ["told him"]

    async def made() -> list[str]:
        try:
            found = await house.bot.call("GET", f"/user/{house.bot.id}/account_data/m.direct")
        except Refused:
            return []
        return list(found.get(house.bob.id, ()))

    [direct] = await until(made, "the room for the two")
    await house.bob.join(direct)

    async def told() -> bool:
        return await house.bob.texts(direct) == ["Ben, look"]

    await until(told, "the message")


async def test_a_gateway_that_is_killed_again_and_again_hears_and_says_everything_once(
    house: House, gateway: Gateway
) -> None:
    room = await house.alice.create_room(invite=[house.bot.name])
    await house.alice.say(room, "say: ready")
    await wait_for_texts(house, room, 1)
    for n in range(24):
        await house.alice.say(room, f"say: answer {n}")
        if n % 6 == 5:
            await asyncio.sleep(0.3)  # in the middle of something, whatever it is
            gateway.kill()
            await house.alice.say(room, f"say: answer while it was down {n}")
            await gateway.up()
    wanted = {"ready", *(f"answer {n}" for n in range(24)), *(f"answer while it was down {n}" for n in (5, 11, 17, 23))}

    async def all_heard() -> bool:
        texts = [one["text"] for one in await gateway.entries(session_key(room)) if one["role"] == "user"]
        return len(texts) >= len(wanted)

    await until(all_heard, "every message")

    async def quiet() -> bool:
        # The sessions first: a turn that ends after the parts were asked for would queue its answer unseen.
        listed = [one for one in (await gateway.get("/v1/sessions"))["sessions"] if one["key"] == session_key(room)]
        waiting = [(await gateway.get(f"/v1/parts?state={each}"))["parts"] for each in ("queued", "sending", "unknown")]
        return all(one["state"] == "idle" for one in listed) and not any(waiting)

    await until(quiet, "the last answer")
    entries = await gateway.entries(session_key(room))
    heard = [one["text"].removeprefix("say: ") for one in entries if one["role"] == "user"]
    assert sorted(heard) == sorted(wanted)
    answers = [one for one in entries if one["role"] == "agent"]
    delivered = [one["text"] for one in answers if one.get("delivery")]
    said = await house.alice.texts(room, house.bot.name)
    assert said == delivered, "the platform shows what the record says was sent, in its order, once"
    assert len(set(said)) == len(said)
    undelivered = [one for one in answers if not one.get("delivery")]
    assert all(one.get("partial") for one in undelivered), "what was cut off by a kill, before it was said"
    gateway.kill()
    gateway.doctor()
