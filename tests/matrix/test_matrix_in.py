"""What is heard from a real homeserver."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from matrix_house import House, messages, op, until

from semel.channels.matrix import gaps
from semel.gateway.ports import Denied, Incoming, Kept, Missing

pytestmark = pytest.mark.channels


def texts(events: list[Incoming]) -> list[str]:
    return [event.text for event in events]


async def test_a_message_is_heard_with_who_and_where(house: House) -> None:
    await house.alice.call("PUT", f"/profile/{house.alice.id}/displayname", {"displayname": "Alice A."})
    room = await house.pair(name="The two of us")
    async with house.running() as inbox:
        event = await house.alice.say(room, "hello")
        [heard] = await inbox.wait(1)
    assert (heard.kind, heard.key, heard.address, heard.text) == ("message", event, room, "hello")
    assert heard.sender is not None
    assert (heard.sender.id, heard.sender.name, heard.sender.bot) == (house.alice.id, "Alice A.", False)
    assert (heard.group, heard.title, heard.mentioned) == (False, "The two of us", False)
    assert heard.at > 1_700_000_000


async def test_the_first_run_begins_at_the_present_and_the_next_where_it_ended(house: House) -> None:
    room = await house.pair()
    await house.alice.say(room, "long ago")
    async with house.running() as inbox:
        await house.alice.say(room, "now")
        await inbox.wait(1)
    for n in range(3):
        await house.alice.say(room, f"while you were away {n}")
    async with house.running(inbox=house.inbox(inbox.at)) as again:
        await again.wait(3)
    assert texts(inbox.events) == ["now"]
    assert texts(again.events) == [f"while you were away {n}" for n in range(3)]


async def test_what_an_account_missed_is_heard_to_the_last_page_in_order_and_once(house: House) -> None:
    room, other = await house.pair(), await house.pair(house.bob)
    async with house.running() as inbox:
        pass
    for n in range(260):
        await house.alice.say(room, f"{n}")
        if n % 4 == 0:
            await house.bob.say(other, f"other {n}")
    async with house.running(inbox=inbox):
        await inbox.wait(325, 60.0)
        assert texts([one for one in inbox.events if one.address == room]) == [str(n) for n in range(260)]
        assert texts([one for one in inbox.events if one.address == other]) == [f"other {n}" for n in range(0, 260, 4)]
        assert not inbox.repeats
        assert inbox.at is not None and "gaps" not in inbox.at


async def test_a_gateway_that_dies_in_a_gap_goes_on_at_the_page_it_had_put(house: House) -> None:
    room = await house.pair()
    async with house.running() as inbox:
        pass
    for n in range(260):
        await house.alice.say(room, f"{n}")
    while len(inbox.events) < 260:  # each run dies at the first page it puts
        died = house.inbox(inbox.at)
        try:
            async with house.running(inbox=_Dying(died, after=1)):
                await died.wait(1)
        except OSError:
            pass
        for events, cursor in died.puts:
            await inbox.put(events, cursor)
        assert died.events, "each run gets further"
    assert texts(inbox.events) == [str(n) for n in range(260)]
    assert not inbox.repeats, "no page was read twice"


class _Dying:
    """An inbox whose disk is full after some puts with events."""

    def __init__(self, inbox: Any, after: int) -> None:
        self._inbox, self._left = inbox, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    async def put(self, events: Any, cursor: str | None = None) -> None:
        if self._left == 0 and events:
            raise OSError("the disk is full")
        self._left -= 1 if events else 0
        await self._inbox.put(events, cursor)


async def test_edits_deletions_and_reactions_refer_to_the_message(house: House) -> None:
    room = await house.pair()
    async with house.running() as inbox:
        hello = await house.alice.say(room, "helo")
        await house.alice.edit(room, hello, "hello")
        thumb = await house.alice.react(room, hello, "👍")
        await house.alice.redact(room, thumb)
        await house.alice.redact(room, hello)
        await inbox.wait(5)
    assert [(one.kind, one.text, one.of, one.removed, one.address) for one in inbox.events] == [
        ("message", "helo", None, False, room),
        ("edit", "hello", hello, False, room),
        ("reaction", "👍", hello, False, room),
        ("reaction", "👍", hello, True, room),
        ("delete", "", hello, False, room),
    ]
    assert len({one.key for one in inbox.events}) == 5


async def test_what_refers_to_a_thread_is_heard_in_it_also_after_a_restart(house: House) -> None:
    room = await house.pair()
    root = await house.alice.say(room, "root")
    related = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True, "m.in_reply_to": {"event_id": root}}
    inside = await house.alice.say(room, "inside", **{"m.relates_to": related})
    async with house.running() as inbox:
        await house.alice.edit(room, inside, "edited inside")
        await house.alice.react(room, inside, "👍")
        await inbox.wait(2)
    assert {one.address for one in inbox.events} == {f"{room}:thread-{root[1:]}"}


async def test_an_edit_of_somebody_elses_message_is_none(house: House) -> None:
    room = await house.group()
    async with house.running() as inbox:
        hello = await house.alice.say(room, "hello")
        await house.bob.edit(room, hello, "I owe bob money")
        await house.alice.say(room, "end")
        await inbox.wait(2)
    assert texts(inbox.events) == ["hello", "end"]


async def test_a_group_knows_who_is_meant(house: House) -> None:
    await house.bot.call("PUT", f"/profile/{house.bot.id}/displayname", {"displayname": "Semel Bot"})
    room = await house.group(name="Lobby")
    async with house.running() as inbox:
        own = (await house.channel().send(op(room, "I am here"))).id
        await house.alice.say(room, "just talking")
        await house.alice.say(room, f"{house.bot.id}: status?", **{"m.mentions": {"user_ids": [house.bot.id]}})
        await house.alice.say(room, "Semel Bot: hello")
        await house.alice.say(room, "Semel Bot is slow today")
        await house.alice.say(
            room, "> <@x:y> I am here\n\nreally?", **{"m.relates_to": {"m.in_reply_to": {"event_id": own}}}
        )
        await house.alice.say(room, f"/new@{house.bot.name} now")
        await house.alice.say(
            room, "Semel Bot hi", formatted_body=f'<a href="https://matrix.to/#/{house.bot.id}">Semel Bot</a> hi'
        )
        heard = await until(inbox, lambda events: [one for one in events if one.kind == "message"][6:])
    assert heard
    told = [(one.text, one.mentioned) for one in messages(inbox)]
    assert told == [
        ("just talking", False),
        ("status?", True),
        ("hello", True),
        ("Semel Bot is slow today", False),
        ("really?", True),
        ("/new now", True),
        ("hi", True),
    ]
    assert all(one.group and one.title == "Lobby" for one in messages(inbox))
    assert messages(inbox)[4].of == own


async def test_a_room_becomes_a_group_when_a_third_comes_and_is_one_no_more_when_they_leave(house: House) -> None:
    room = await house.pair()
    async with house.running() as inbox:
        await house.alice.say(room, "two")
        await inbox.wait(1)
        await house.alice.invite(room, house.bob.name)
        await house.bob.join(room)
        await house.alice.say(room, "three")
        await inbox.wait(2)
        await house.bob.leave(room)
        await house.alice.say(room, "two again")
        await inbox.wait(3)
    assert [one.group for one in inbox.events] == [False, True, False]


async def test_files_are_kept_and_what_is_too_large_is_named(house: House) -> None:
    room = await house.pair()
    mxc = await house.alice.upload(b"\0\1\2" * 1000, "data.bin", "application/octet-stream")
    async with house.running(house.channel(file_limit=4000)) as inbox:
        file = {"msgtype": "m.file", "url": mxc, "info": {"mimetype": "application/octet-stream", "size": 3000}}
        await house.alice.send(room, "m.room.message", {**file, "body": "see this", "filename": "data.bin"})
        await house.alice.send(room, "m.room.message", {**file, "body": "big.bin", "info": {"size": 5000}})
        large = await house.alice.upload(b"0" * 5000, "liar.bin", "text/plain")
        await house.alice.send(room, "m.room.message", {**file, "body": "liar.bin", "url": large})
        await house.alice.send(room, "m.room.message", {**file, "body": "gone.bin", "url": "mxc://localhost/nothere"})
        await house.alice.send(room, "m.sticker", {"body": "😀 smile", "url": mxc, "info": {"mimetype": "image/png"}})
        await inbox.wait(5)
    first, *missing, sticker = inbox.events
    [kept] = first.files
    assert isinstance(kept, Kept)
    assert (first.text, kept.name, kept.size) == ("see this", "data.bin", 3000)
    assert (house.where / "files" / kept.id).read_bytes() == b"\0\1\2" * 1000
    whys = [file.why for one in missing for file in one.files if isinstance(file, Missing)]
    assert whys[:2] == ["it is larger than 4,000 bytes"] * 2
    assert "not there" in whys[2]
    assert (sticker.text, sticker.files[0].name) == ("😀 smile", "sticker.png")


async def test_emotes_notices_places_and_what_is_not_known(house: House) -> None:
    room = await house.pair()
    async with house.running() as inbox:
        await house.alice.send(room, "m.room.message", {"msgtype": "m.emote", "body": "waves"})
        await house.alice.send(room, "m.room.message", {"msgtype": "m.notice", "body": "beep"})
        await house.alice.send(room, "m.room.message", {"msgtype": "m.location", "body": "Here", "geo_uri": "geo:1,2"})
        await house.alice.send(room, "m.poll.start", {"m.text": [{"body": "Tea? 1. yes 2. no"}], "m.poll": {}})
        await house.alice.send(room, "m.call.hangup", {"call_id": "1", "version": 0})
        await house.alice.send(room, "org.example.thing", {"value": 7})
        await inbox.wait(5)
    assert texts(inbox.events[:4]) == ["* waves", "beep", "Here\ngeo:1,2", "Tea? 1. yes 2. no"]
    assert [one.sender.bot for one in inbox.events[:4] if one.sender] == [False, True, False, False]
    odd = inbox.events[4]
    assert (odd.kind, odd.sender.id if odd.sender else "") == ("unreadable", house.alice.id)
    assert b'"value": 7' in odd.raw and "org.example.thing" in odd.why


async def test_known_people_are_followed_into_their_rooms_and_what_they_said_first_is_heard(house: House) -> None:
    before = await house.alice.create_room(invite=[house.bot.name])
    await house.alice.say(before, "asked before the first run")
    async with house.running() as inbox:
        await inbox.wait(1)
        old = await house.alice.create_room()
        await house.alice.say(old, "not to you")
        await house.alice.invite(old, house.bot.name)
        await house.alice.say(old, "to you")
        await until(inbox, lambda events: [one for one in events if one.text == "to you"])
        await house.alice.say(old, "welcome")
        await until(inbox, lambda events: [one for one in events if one.text == "welcome"])
    assert texts(inbox.events) == ["asked before the first run", "to you", "welcome"]


async def test_a_long_history_before_an_invitation_is_not_heard(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "EVENTS_PER_PAGE", 20)
    async with house.running() as inbox:
        room = await house.alice.create_room()
        for n in range(70):
            await house.alice.say(room, f"before {n}")
    await house.alice.invite(room, house.bot.name)
    for n in range(70):
        await house.alice.say(room, f"after {n}")
    async with house.running(inbox=inbox):
        await inbox.wait(70, 60.0)
        await house.alice.say(room, "end")
        await inbox.wait(71)
    assert texts(inbox.events) == [f"after {n}" for n in range(70)] + ["end"]


async def test_a_room_entered_long_before_its_first_sync_is_heard_from_the_invitation(house: House) -> None:
    async with house.running() as inbox:
        pass
    room = await house.alice.create_room()
    await house.alice.say(room, "not to you")
    await house.alice.invite(room, house.bot.name)
    await house.bot.join(room)
    for n in range(130):
        await house.alice.say(room, f"{n}")
    async with house.running(inbox=inbox):
        await inbox.wait(130, 60.0)
    assert texts(inbox.events) == [str(n) for n in range(130)]


async def test_strangers_are_left_without_an_answer_until_they_are_known(house: House) -> None:
    inbox = house.inbox()
    inbox.strangers.add(house.bob.id)
    async with house.running(inbox=inbox):
        room = await house.bob.create_room(invite=[house.bot.name])
        hello = await house.alice.create_room(invite=[house.bot.name])
        await house.alice.say(hello, "hello")
        await inbox.wait(1)
        assert (await house.bob.members(room))[house.bot.id] == "invite"
    assert inbox.at is not None and room in inbox.at
    inbox.strangers.clear()
    await house.bob.say(room, "it is me, Bob")
    async with house.running(inbox=inbox):
        await inbox.wait(2)
    assert texts(inbox.events) == ["hello", "it is me, Bob"]
    assert inbox.at is not None and room not in inbox.at


async def test_an_invitation_to_an_encrypted_room_is_declined_with_the_reason(house: House) -> None:
    state = [{"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}]
    async with house.running() as inbox:
        room = await house.alice.create_room(invite=[house.bot.name], initial_state=state)
        hello = await house.alice.create_room(invite=[house.bot.name])
        await house.alice.say(hello, "hello")
        await inbox.wait(1)
    [left] = [
        event["content"]
        for event in await house.alice.events(room)
        if event.get("state_key") == house.bot.id and event["content"]["membership"] == "leave"
    ]
    assert "without encryption" in left["reason"]


async def test_a_token_that_ended_is_renewed_by_the_password(house: House) -> None:
    room, channel = await house.pair(), house.channel()
    async with house.running(channel) as inbox:
        me = await channel.account.identify()
        await house.bot.call("POST", "/delete_devices", {"devices": [me.device], "auth": _auth(house)})
        await house.alice.say(room, "still there?")
        await inbox.wait(1)
        assert (await channel.account.identify()).token != me.token
        await channel.send(op(room, "yes"))
    assert await house.alice.texts(room) == ["still there?", "yes"]


async def test_an_account_that_is_refused_says_what_to_do(house: House) -> None:
    told = [
        (house.channel(password="wrong"), "check user and password"),
        (house.channel(token="no-such-token"), "does not take the token"),
        (house.channel(token=house.bot.token, device="OTHER"), "belongs to the device"),
        (house.channel(token=house.bot.token, user=house.bob.id), "belongs to @bot"),
        (house.channel(homeserver=f"{house.server.url}/nothing"), "check homeserver"),
    ]
    for channel, says in told:
        with pytest.raises(Denied, match=says) as caught:
            await channel.run(house.inbox())
        assert "wrong" not in str(caught.value) and "no-such-token" not in str(caught.value)


async def test_an_access_token_is_enough(house: House) -> None:
    room = await house.pair()
    async with house.running(house.channel(token=house.bot.token)) as inbox:
        await house.alice.say(room, "hello")
        await inbox.wait(1)


async def test_a_full_disk_loses_nothing(house: House) -> None:
    room = await house.pair()
    inbox = house.inbox()
    run = asyncio.create_task(house.channel().run(inbox))
    await inbox.wait_online()
    inbox.fail = OSError("the disk is full")
    await house.alice.say(room, "hello")
    with pytest.raises(OSError, match="full"):
        await asyncio.wait_for(run, 30.0)
    async with house.running(inbox=inbox):
        await inbox.wait(1)
    assert texts(inbox.events) == ["hello"]


def _auth(house: House) -> dict[str, Any]:
    return {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": house.bot.id}, "password": "pw"}
