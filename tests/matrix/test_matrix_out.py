"""What leaves for a real homeserver, as another person's client reads it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from matrix_house import House, messages, op, until

from semel.gateway.ports import Answers, NotSent, Receipt, Rejected

pytestmark = pytest.mark.channels


async def test_a_message_is_shown_with_its_formatting_and_its_receipt_is_its_event_id(house: House) -> None:
    room = await house.pair()
    receipt = await house.channel().send(op(room, "**Done** in `main.py`, see https://example.org"))
    [event] = await house.alice.messages(room, house.bot.name)
    assert event["event_id"] == receipt.id
    assert event["content"]["body"] == "**Done** in `main.py`, see https://example.org"
    assert event["content"]["formatted_body"] == (
        '<p><strong>Done</strong> in <code>main.py</code>, see <a href="https://example.org">https://example.org</a></p>'
    )


async def test_a_repeat_of_a_key_is_folded_by_the_homeserver_even_after_a_new_login(house: House) -> None:
    room = await house.pair()
    one = op(room, "once")
    first = await house.channel().send(one)
    assert await house.channel().send(one) == first, "a channel made anew logs in again, with the same device"
    assert await house.alice.texts(room, house.bot.name) == ["once"]


async def test_without_the_pinned_device_the_homeserver_would_show_it_twice(house: House) -> None:
    """Why the device is pinned: this is what happens otherwise."""
    room = await house.pair()
    one = op(room, "twice")
    await house.channel().send(one)
    await house.channel(device="OTHER").send(one)
    assert await house.alice.texts(room, house.bot.name) == ["twice", "twice"]


async def test_a_new_token_of_another_device_shows_nothing_twice(house: House) -> None:
    room = await house.pair()
    one = op(room, "once", at=time.time())
    first = await house.channel(token=house.server.login(house.bot.name, "FIRST")["access_token"]).send(one)
    later = house.channel(token=house.server.login(house.bot.name, "SECOND")["access_token"])
    assert await later.send(one) == first
    assert await house.alice.texts(room, house.bot.name) == ["once"]


async def test_an_edit_replaces_and_a_deletion_removes(house: House) -> None:
    room, channel = await house.pair(), house.channel()
    sent = await channel.send(op(room, "draft"))
    await channel.send(op(room, "the *final* text", "edit", target=sent.id))
    event = (await house.alice.call("GET", f"/rooms/{room}/event/{sent.id}"))["unsigned"]["m.relations"]["m.replace"]
    assert event["content"]["m.new_content"]["body"] == "the *final* text"
    gone = op(room, kind="delete", target=sent.id)
    await channel.send(gone)
    await channel.send(gone)
    assert await house.alice.texts(room, house.bot.name) == []


async def test_a_reaction_that_is_there_already_is_a_receipt(house: House) -> None:
    room, channel = await house.pair(), house.channel()
    hello = await house.alice.say(room, "hello")
    first = await channel.send(op(room, "👍", "react", target=hello))
    assert await channel.send(op(room, "👍", "react", target=hello)) == first
    events = [event for event in await house.alice.events(room) if event["type"] == "m.reaction"]
    assert [event["content"]["m.relates_to"]["key"] for event in events] == ["👍"]


async def test_a_file_arrives_whole_with_its_caption_and_size(house: House, tmp_path: Path) -> None:
    room, channel = await house.pair(), house.channel()
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (3).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"\x08\x06\0\0\0"
    picture = tmp_path / "blob"
    picture.write_bytes(png)
    await channel.send(op(room, "look: **this**", "file", file=picture, name="a b.png", mime="image/png"))
    await channel.send(op(room, "", "file", file=picture, name="notes.bin"))
    shown, plain = [event["content"] for event in await house.alice.messages(room, house.bot.name)]
    assert (shown["msgtype"], shown["body"], shown["filename"]) == ("m.image", "look: **this**", "a b.png")
    assert shown["info"] == {"mimetype": "image/png", "size": len(png), "w": 3, "h": 2}
    assert (plain["msgtype"], plain["body"]) == ("m.file", "notes.bin")
    assert await house.alice.download(shown["url"]) == png


async def test_a_file_larger_than_the_homeserver_takes_is_rejected(house: House, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"0" * 5_300_000)
    with pytest.raises(Rejected, match="M_TOO_LARGE"):
        await house.channel().send(op(await house.pair(), "", "file", file=large, name="large"))


async def test_a_thread_is_answered_in_the_thread_and_a_group_with_a_reply_mark(house: House) -> None:
    room, channel = await house.group(), house.channel()
    async with house.running(channel) as inbox:
        hello = await house.alice.say(room, "hello")
        related = {"rel_type": "m.thread", "event_id": hello, "is_falling_back": True}
        await house.alice.say(room, "and here", **{"m.relates_to": {**related, "m.in_reply_to": {"event_id": hello}}})
        [first, second] = await inbox.wait(2)
        assert (first.address, second.address) == (room, f"{room}:thread-{hello[1:]}")
        for heard, text in ((first, "in the room"), (second, "in the thread")):
            answers = Answers(heard.key, house.alice.id, heard.data)
            await channel.send(op(heard.address, text, answers=answers))
    below, inside = [event["content"] for event in await house.alice.messages(room, house.bot.name)]
    assert below["m.relates_to"] == {"m.in_reply_to": {"event_id": hello}}
    assert below["m.mentions"] == {"user_ids": [house.alice.id]}
    assert (inside["m.relates_to"]["rel_type"], inside["m.relates_to"]["event_id"]) == ("m.thread", hello)
    assert inside["m.relates_to"]["m.in_reply_to"] == {"event_id": second.key}


async def test_a_direct_conversation_is_answered_without_a_reply_mark(house: House) -> None:
    room, channel = await house.pair(), house.channel()
    async with house.running(channel) as inbox:
        await house.alice.say(room, "hello")
        [heard] = await inbox.wait(1)
        await channel.send(op(room, "hi", answers=Answers(heard.key, house.alice.id, heard.data)))
    [event] = await house.alice.messages(room, house.bot.name)
    assert "m.relates_to" not in event["content"]


async def test_the_longest_part_fits_and_a_longer_event_would_be_rejected(house: House) -> None:
    room, channel = await house.pair(), house.channel()
    assert channel.caps.max_len is not None
    for text in ('"' * channel.caps.max_len, "*a* " * (channel.caps.max_len // 4), "ü" * (channel.caps.max_len // 2)):
        sent = await channel.send(op(room, text))
        await channel.send(op(room, text, "edit", target=sent.id))
        await channel.send(op(room, kind="delete", target=sent.id))
    with pytest.raises(Rejected, match="M_TOO_LARGE"):
        await channel.send(op(room, "x" * 70_000))


async def test_not_now_is_not_sent_and_says_when(house: House) -> None:
    room, channel = await house.pair(), house.channel()
    await channel.send(op(room, "first"))
    house.server.limit(house.bot.name, per_second=1, burst=1)
    with pytest.raises(NotSent, match="429") as caught:
        for n in range(20):
            await channel.send(op(room, f"much {n}"))
    assert caught.value.retry_after is not None and caught.value.retry_after > 0


async def test_a_room_that_we_are_not_in_is_a_definite_no(house: House) -> None:
    room = await house.alice.create_room()
    with pytest.raises(Rejected, match="M_FORBIDDEN"):
        await house.channel().send(op(room, "hello?"))


async def test_nothing_is_said_in_clear_in_an_encrypted_room(house: House) -> None:
    room, channel = await house.pair(), house.channel()
    await channel.send(op(room, "before"))
    locked = {"algorithm": "m.megolm.v1.aes-sha2"}
    async with house.running(channel) as inbox:
        hello = await house.alice.say(room, "hello")
        await inbox.wait(1)
        await house.alice.call("PUT", f"/rooms/{room}/state/m.room.encryption", locked)
        await house.alice.send(room, "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "..."})
        [unreadable] = await until(inbox, lambda events: [one for one in events if one.kind == "unreadable"])
        assert "encrypted" in unreadable.why
        for part in (op(room, "secret"), op(room, "👍", "react", target=hello)):
            with pytest.raises(Rejected, match="encrypted"):
                await channel.send(part)
    with pytest.raises(Rejected, match="encrypted"):
        await house.channel().send(op(room, "secret"))
    assert await house.alice.texts(room, house.bot.name) == ["before"]


async def test_a_person_is_written_to_in_one_room_whoever_asks_for_it_and_however_often(house: House) -> None:
    channel = house.channel()
    for n in range(2):
        await channel.send(op(house.alice.id, f"hello {n}"))
    await house.channel().send(op(house.alice.id, "hello 2"))
    await house.bot.call("PUT", f"/user/{house.bot.id}/account_data/m.direct", {})  # what a crash before it leaves
    await house.channel().send(op(house.alice.id, "hello 3"))
    invited = (await house.alice.call("GET", "/sync", timeout="0"))["rooms"]["invite"]
    [(room, told)] = invited.items()
    await house.alice.join(room)
    assert await house.alice.texts(room) == [f"hello {n}" for n in range(4)]
    kinds = {event["type"]: event["content"] for event in told["invite_state"]["events"]}
    assert "m.room.canonical_alias" not in kinds or "alias" not in kinds["m.room.canonical_alias"]
    assert (await house.bot.call("GET", f"/user/{house.bot.id}/account_data/m.direct")) == {house.alice.id: [room]}


async def test_a_person_who_left_is_asked_in_again(house: House) -> None:
    channel = house.channel()
    await channel.send(op(house.alice.id, "hello"))
    [room] = (await house.alice.call("GET", "/sync", timeout="0"))["rooms"]["invite"]
    await house.alice.join(room)
    await house.alice.leave(room)
    await house.channel().send(op(house.alice.id, "are you there?"))
    assert (await house.bot.members(room))[house.alice.id] == "invite"


async def test_an_alias_that_somebody_else_took_first_is_passed_over(house: House) -> None:
    from semel.channels.matrix.direct_rooms import alias_of

    trap = await house.bob.create_room(
        invite=[house.bot.name, house.alice.name], room_alias_name=alias_of(house.bot.id, house.alice.id, 0)
    )
    await house.bot.join(trap)
    await house.channel().send(op(house.alice.id, "for your eyes"))
    assert await house.bob.texts(trap) == []
    rooms = (await house.alice.call("GET", "/sync", timeout="0"))["rooms"]["invite"]
    [room] = set(rooms) - {trap}
    await house.alice.join(room)
    assert await house.alice.texts(room) == ["for your eyes"]


async def test_a_lost_message_is_found_and_one_that_never_left_is_not(house: House) -> None:
    room, channel = await house.pair(), house.channel()
    sent = op(room, "here")
    receipt = await channel.send(sent)
    for n in range(120):
        await house.bot.say(room, f"noise {n}")
    assert await channel.find(sent, 0.0) == receipt
    assert await house.channel(device="OTHER").find(sent, 0.0) == receipt, "by the key in its content"
    assert await channel.find(op(room, "never"), 0.0) is None
    forged = op(room, "forged")
    await house.alice.say(room, "mine", **{"dev.semel.key": forged.key})
    assert await channel.find(forged, 0.0) is None


async def test_an_alias_is_an_address_and_nonsense_is_none(house: House) -> None:
    room = await house.alice.create_room(invite=[house.bot.name], room_alias_name=f"ops-{house.bot.name}")
    await house.bot.join(room)
    channel = house.channel()
    assert isinstance(await channel.send(op(f"#ops-{house.bot.name}:localhost", "hello")), Receipt)
    for address, says in (("#none:localhost", "no room"), ("nowhere", "is not a room"), ("@x", "is not a Matrix user")):
        with pytest.raises(Rejected, match=says):
            await channel.send(op(address, "hello"))


async def test_typing_is_shown(house: House) -> None:
    room, channel = await house.pair(), house.channel()
    since = (await house.alice.call("GET", "/sync", timeout="0"))["next_batch"]
    await channel.typing(room)
    told = (await house.alice.call("GET", "/sync", since=since, timeout="10000"))["rooms"]["join"][room]
    assert told["ephemeral"]["events"] == [{"type": "m.typing", "content": {"user_ids": [house.bot.id]}}]


async def test_our_own_messages_come_back_as_echoes_by_their_keys(house: House) -> None:
    room, channel = await house.pair(), house.channel()
    async with house.running(channel) as inbox:
        post = op(room, "hello")
        sent = await channel.send(post)
        edit, react = op(room, "hi", "edit", target=sent.id), op(room, "👍", "react", target=sent.id)
        gone = op(room, kind="delete", target=sent.id)
        ids = [(await channel.send(each)).id for each in (edit, react, gone)]
        await inbox.wait(4)
        assert [(one.kind, one.key, one.of) for one in inbox.events] == [
            ("echo", part.key, id) for part, id in zip((post, edit, react, gone), [sent.id, *ids], strict=True)
        ]
        assert messages(inbox) == []
