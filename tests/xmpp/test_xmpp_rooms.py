"""Rooms on a real Prosody."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until
from prosody import XmppUser
from xmpp_house import House, element, reactions, room_id, shown

from semel.gateway.ports import Answers, NotSent, Receipt, Rejected
from semel.gateway.settings import ChannelSettings, PersonSettings


async def shown_with(user: XmppUser, words: str) -> Any:
    """The live message with these words, once it came."""
    await user.wait(lambda: any(words in text for text in user.texts), 60.0)
    return next(each for each in user.messages if words in each["body"])


pytestmark = pytest.mark.channels
OWNER = "{http://jabber.org/protocol/muc#owner}query"


async def configure(user: XmppUser, room: str, **fields: Any) -> None:
    """Settings of a room that this user owns (muc#roomconfig_...)."""
    form = user.client.plugin["xep_0004"].make_form(ftype="submit")
    form.add_field(var="FORM_TYPE", ftype="hidden", value="http://jabber.org/protocol/muc#roomconfig")
    for name, value in fields.items():
        form.add_field(var=f"muc#roomconfig_{name}", value=value)
    await user.client.plugin["xep_0045"].set_room_config(room, form, timeout=30)


async def test_a_room_with_a_mention_an_answer_an_edit_and_a_reaction(house: House) -> None:
    channel, room = house.in_room(), house.room
    async with house.user("alice") as alice, house.user("bob") as bob:
        await alice.join(room, "alice")
        await bob.join(room, "bob")
        async with house.running(channel):
            nick = house.names["bot"]
            await bob.say(room, "nobody in particular", group=True)
            await alice.say(room, f"{nick}: what is new?", group=True)
            idle, asked = await house.heard("message", 2)
            assert (idle.text, idle.mentioned, idle.group) == ("nobody in particular", False, True)
            assert (asked.text, asked.mentioned, asked.address) == ("what is new?", True, room)
            assert asked.sender is not None and asked.sender.name == "alice"
            assert asked.key.startswith(f"{room}/")

            answers = Answers(asked.key, asked.sender.id, asked.data)
            op = house.op("post", room, "nothing", answers=answers)
            receipt = await channel.send(op)
            seen = await shown(alice, "nothing")
            assert receipt == Receipt(f"{room}/{room_id(seen, room)}")
            reply = seen.xml.find("{urn:xmpp:reply:0}reply")
            assert (reply.get("id"), reply.get("to")) == (asked.key.removeprefix(f"{room}/"), f"{room}/alice")

            await channel.send(house.op("edit", room, "a lot", target=receipt.id))
            edit = await shown(alice, "a lot")
            assert edit.xml.find("{urn:xmpp:message-correct:0}replace").get("id") == op.key

            wave = reactions(room_id(seen, room), "👍")
            await alice.say(room, "", group=True, append=[wave])
            [reaction] = await house.heard("reaction")
            assert (reaction.of, reaction.text, reaction.group) == (receipt.id, "👍", True)

            back = element("urn:xmpp:reply:0", "reply", to=f"{room}/{nick}", id=room_id(seen, room))
            await bob.say(room, "really?", group=True, append=[back])
            answer = (await house.heard("message", 3))[2]
            assert (answer.of, answer.mentioned) == (receipt.id, True)
            assert next(each.key for each in await house.heard("echo", 2)) == op.key


async def test_what_was_said_in_a_room_while_we_were_away(house: House) -> None:
    channel, room = house.in_room(), house.room
    async with house.user("alice") as alice:
        await alice.join(room, "alice")
        async with house.running(channel):
            await alice.say(room, "here", group=True)
            await house.heard("message")
        for n in range(70):
            await alice.say(room, f"away {n}", group=True)
        async with house.running(channel):
            heard = await house.heard("message", 71)
        assert [each.text for each in heard] == ["here", *(f"away {n}" for n in range(70))]
        assert {each.sender.name for each in heard if each.sender} == {"alice"}
        assert not house.inbox.repeats


async def test_people_keep_their_address_in_a_room_that_shows_it(house: House) -> None:
    channel, room = house.in_room(), house.room
    async with house.user("alice") as alice:
        await alice.join(room, "alice")
        await configure(alice, room, whois="anyone")
        async with house.running(channel):
            await alice.say(room, "live", group=True)
            await house.heard("message")
        async with house.user("bob") as bob:
            await bob.join(room, "bob")
            await bob.say(room, "bob was here, and left", group=True)
        async with house.running(channel):
            live, gone = await house.heard("message", 2)
        assert live.sender is not None and live.sender.id == house.jid("alice")
        assert gone.sender is not None and gone.sender.id == house.jid("bob"), "out of the archive"


async def test_who_may_answer_approves_by_a_reaction_in_a_room(house: House, tmp_path: Path) -> None:
    room, nick, channel = house.room, house.names["bot"], house.in_room()

    async def has_joined() -> bool:
        return world.gateway.channel_manager.list()[0]["state"] == "online"

    owner = PersonSettings(name="alice", role="owner", accounts=(f"jabber:{house.jid('alice')}",))
    member = PersonSettings(name="bob", role="member", accounts=(f"jabber:{house.jid('bob')}",))
    world = World(
        tmp_path, channels={"jabber": channel}, people={"alice": owner, "bob": member},
        channel_settings={"jabber": ChannelSettings(name="jabber", kind="xmpp")}, agent={"approvals": ("owner",)},
    )  # fmt: skip
    async with house.user("alice") as alice, house.user("bob") as bob:
        await alice.join(room, "alice")
        await configure(alice, room, whois="anyone")
        await bob.join(room, "bob")
        async with world:
            await until(has_joined)
            ask = {"permission": "rm -r build", "allowed": ["tidy"], "denied": ["left it"]}
            await bob.say(room, f"{nick}: {script(ask)}", group=True)
            asked = await shown_with(alice, "1. ✅ Allow once")
            press = [reactions(room_id(asked, room), "✅"), element("urn:xmpp:hints", "store")]
            await bob.say(room, "", group=True, append=press)
            await shown_with(alice, "/approve: ")
            await alice.say(room, "", group=True, append=press)
            await shown_with(alice, "Allow once, by alice: rm -r build")
            await shown(alice, "tidy")


async def test_in_a_room_that_gives_messages_no_id_no_reaction_is_offered(house: House) -> None:
    channel = house.in_room()
    assert channel.can_press(house.jid("alice"))
    assert not channel.can_press(house.room), "it is not known yet what the room gives"
    async with house.running(channel):
        assert channel.can_press(house.room)
        channel._sender.membership.rooms[house.room].archived = False  # type: ignore[union-attr]
        assert not channel.can_press(house.room)


async def test_people_keep_one_id_in_a_room_that_hides_addresses(house: House) -> None:
    channel, room = house.in_room(), house.room
    async with house.user("alice") as alice:
        await alice.join(room, "alice")
        async with house.running(channel):
            await alice.say(room, "live", group=True)
            await house.heard("message")
        await alice.say(room, "away", group=True)
        async with house.running(channel):
            live, away = await house.heard("message", 2)
        assert live.sender == away.sender
        assert (
            live.sender is not None and live.sender.id.startswith(f"{room}/") and len(live.sender.id) > len(room) + 20
        )


async def test_speaking_in_a_room_without_run(house: House) -> None:
    channel, room = house.in_room(), house.room
    async with house.user("alice") as alice:
        await alice.join(room, "alice")
        op = house.op("post", room, "on a line of its own")
        receipt = await channel.send(op)
        assert receipt.id == f"{room}/{room_id(await shown(alice, 'on a line of its own'), room)}"
        assert await channel.find(op, 0.0) == receipt
        assert await channel.find(house.op("post", room, "never"), 0.0) is None
        edit = house.op("edit", room, "better", target=receipt.id)
        await house.in_room().send(edit)  # another process: the original is looked up in the archive
        seen = await shown(alice, "better")
        assert seen.xml.find("{urn:xmpp:message-correct:0}replace").get("id") == op.key
        for n in range(60):
            await alice.say(room, f"more {n}", group=True)
        assert await channel.find(op, 0.0) == receipt, "two pages back"


async def test_only_who_wrote_it_takes_a_message_back(house: House) -> None:
    channel, room = house.in_room(), house.room
    async with house.user("alice") as alice, house.user("bob") as bob:
        await alice.join(room, "alice")
        await bob.join(room, "bob")
        async with house.running(channel):
            await alice.say(room, "mine", group=True)
            [mine] = await house.heard("message")
            id = mine.key.removeprefix(f"{room}/")
            take_back = element("urn:xmpp:message-retract:1", "retract", id=id)
            await bob.say(room, "bob takes it back", group=True, append=[take_back])
            await alice.say(room, "alice takes it back", group=True, append=[take_back])
            [deletion] = await house.heard("delete")
            assert deletion.of == mine.key and deletion.sender == mine.sender


async def test_a_room_that_wants_a_password(house: House) -> None:
    room = house.room
    async with house.user("alice") as alice:
        await alice.join(room, "alice")
        await configure(alice, room, passwordprotectedroom="1", roomsecret="sesame")
        with pytest.raises(Rejected, match="room_password"):
            await house.in_room().send(house.op("post", room, "x"))
        async with house.running(house.in_room()):
            await alice.say(house.bot, "the rest of the account works", append=[])
            await house.heard("message")
        channel = house.in_room(room_password="sesame")
        async with house.running(channel):
            await channel.send(house.op("post", room, "inside"))
            await shown(alice, "inside")


async def test_our_nick_taken_by_somebody_is_no_reason_to_fall_silent(house: House) -> None:
    async with house.user("alice") as alice:
        await alice.join(house.room, house.names["bot"])
        with pytest.raises(NotSent, match="somebody there has our nick"):
            await house.in_room().send(house.op("post", house.room, "x"))
        channel = house.in_room(nick="Semel", keepalive=0.5)
        async with house.running(channel):
            await channel.send(house.op("post", house.room, "with another name"))
            assert (await shown(alice, "with another name"))["from"].resource == "Semel"


async def test_sent_out_of_a_room_it_comes_back(house: House) -> None:
    channel, room = house.in_room(keepalive=0.5), house.room
    async with house.user("alice") as alice:
        await alice.join(room, "alice")
        async with house.running(channel):
            await alice.client.plugin["xep_0045"].set_role(room, house.names["bot"], "none", timeout=30)
            await alice.say(room, "while it is out", group=True)
            [heard] = await house.heard("message")
            assert heard.text == "while it is out"
            await channel.send(house.op("post", room, "back"))
            await shown(alice, "back")


async def test_banned_from_a_room_is_a_definite_no(house: House) -> None:
    room = house.room
    async with house.user("alice") as alice:
        await alice.join(room, "alice")
        await alice.client.plugin["xep_0045"].set_affiliation(room, affiliation="outcast", jid=house.bot, timeout=30)
        with pytest.raises(Rejected, match="banned"):
            await house.in_room().send(house.op("post", room, "x"))


async def test_a_room_that_is_not_there_is_made(house: House) -> None:
    channel = house.in_room()
    async with house.running(channel), house.user("alice") as alice:
        await alice.join(house.room, "alice")
        await channel.send(house.op("post", house.room, "welcome"))
        await shown(alice, "welcome")


async def test_a_private_message_through_a_room_is_kept_as_unreadable(house: House) -> None:
    async with house.user("alice") as alice:
        await alice.join(house.room, "alice")
        async with house.running(house.in_room()):
            await alice.say(f"{house.room}/{house.names['bot']}", "psst")
            [hidden] = await house.heard("unreadable")
            assert "private message" in hidden.why and b"psst" in hidden.raw


async def test_typing_is_seen_in_a_room(house: House) -> None:
    async with house.user("alice") as alice:
        await alice.join(house.room, "alice")
        came: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        alice.client.register_plugin("xep_0085")
        alice.client.add_event_handler("chatstate_composing", lambda stanza: came.done() or came.set_result(stanza))
        channel = house.in_room()
        async with house.running(channel):
            await channel.typing(house.room)
            assert (await asyncio.wait_for(came, 30))["from"].bare == house.room
