"""What people do on Discord, as the inbox gets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from discord_house import ANN, BOB, DiscordHouse, discord

from semel.channels.discord.settings import DiscordSettings
from semel.channels.discord.transport import DiscordApi, FileGone
from semel.gateway.ports import Answers, Button, Kept, Missing, NotSent, Person, Rejected, Unknown
from semel.testing.discord import BOT, TOKEN


async def test_a_direct_message_is_put_with_its_author_and_place(hearing: DiscordHouse) -> None:
    id = hearing.double.write(hearing.direct, ANN, "hello <@7000000000000000001> <:rose:123456789012345678>")
    [message] = await hearing.hear(1)
    assert (message.kind, message.key, message.address) == ("message", f"{hearing.direct}/{id}", hearing.direct)
    assert message.sender == Person(ANN, "Ann")
    assert message.text == "hello @Ann :rose:" and not message.group and not message.mentioned
    assert abs(message.at - hearing.double.now()) < 30


async def test_a_message_in_a_server_says_where_it_is_and_whether_it_mentions_us(hearing: DiscordHouse) -> None:
    hearing.double.write(hearing.room, ANN, "just talking")
    hearing.double.write(hearing.room, ANN, f"<@{BOT}> what is this?")
    role = hearing.double.guilds[hearing.guild].role
    hearing.double.write(hearing.room, BOB, f"<@&{role}>, and this?")
    plain, named, by_role = await hearing.hear(3)
    assert plain.group and not plain.mentioned and plain.title == "Garden #roses"
    assert plain.sender == Person(ANN, "Annie")  # her name in the server
    assert named.mentioned and named.text == "what is this?"
    assert by_role.mentioned and by_role.text == "and this?"


async def test_a_message_reads_the_same_live_and_from_the_history(hearing: DiscordHouse) -> None:
    """Else a repeat would count as a conflict (Law 1)."""
    role = hearing.double.guilds[hearing.guild].role
    hearing.double.write(hearing.room, BOB, f"<@{ANN}> look in <#{hearing.room}>, <@&{role}>")
    [live] = await hearing.hear(1)
    assert live.text == f"@Ann look in <#{hearing.room}>, <@&{role}>"  # not Annie, as she is called here
    hearing.double.sessions.invalidate()
    hearing.inbox.events.clear()
    hearing.inbox._keys.clear()
    await hearing.restart()
    [read] = hearing.inbox.events
    assert (read.key, read.text, read.of, read.address, read.sender and read.sender.id) == (
        live.key, live.text, live.of, live.address, BOB,
    )  # fmt: skip


async def test_a_bare_mention_is_told_in_words(hearing: DiscordHouse) -> None:
    hearing.double.write(hearing.room, ANN, f"<@{BOT}>")
    [message] = await hearing.hear(1)
    assert message.text == "[a message that only mentions you]" and message.mentioned


async def test_a_message_of_a_history_that_cannot_be_read_is_kept(hearing: DiscordHouse) -> None:
    await hearing.stop()
    hearing.double.sessions.invalidate()
    id = hearing.double.write(hearing.room, ANN, "odd")
    hearing.double.write(hearing.room, ANN, "after")
    hearing.double.channels[hearing.room].messages[id].body["author"] = None
    await hearing.restart()
    assert [(event.kind, event.text) for event in hearing.inbox.events] == [("unreadable", ""), ("message", "after")]


async def test_a_reply_names_its_original_and_a_reply_to_us_mentions_us(hearing: DiscordHouse) -> None:
    ours = await hearing.channel.send(hearing.op("I am here"))
    first = hearing.double.write(hearing.room, ANN, "one")
    hearing.double.write(hearing.room, BOB, "two", reply_to=first)
    hearing.double.write(hearing.room, BOB, "three", reply_to=ours.id.partition("/")[2])
    heard = [event for event in await hearing.hear(4) if event.kind == "message"]
    assert heard[1].of == f"{hearing.room}/{first}" and not heard[1].mentioned
    assert heard[1].data["replied"] == {"from": "Ann", "text": "one"}
    assert heard[2].of == ours.id and heard[2].mentioned


async def test_edits_reactions_and_deletions_refer_to_their_message(hearing: DiscordHouse) -> None:
    id = hearing.double.write(hearing.room, ANN, "first")
    hearing.double.unfurl(hearing.room, id)  # no edit: Discord added a preview
    hearing.double.edit(hearing.room, id, "second")
    hearing.double.react(hearing.room, id, BOB, "👍")
    hearing.double.react(hearing.room, id, BOB, "👍", removed=True)
    hearing.double.delete(hearing.room, id)
    _, edit, reaction, taken_back, deletion = await hearing.hear(5)
    key = f"{hearing.room}/{id}"
    assert (edit.kind, edit.of, edit.text) == ("edit", key, "second") and edit.key.startswith(f"{key}#e")
    assert (reaction.kind, reaction.of, reaction.text, reaction.removed) == ("reaction", key, "👍", False)
    assert reaction.sender == taken_back.sender == Person(BOB, "Bob")
    assert taken_back.removed and taken_back.key != reaction.key
    assert (deletion.kind, deletion.of, deletion.sender) == ("delete", key, Person(ANN, "Annie"))


async def test_what_no_person_wrote_is_no_message(hearing: DiscordHouse) -> None:
    hearing.double.write(hearing.room, ANN, "", type=7)  # she joined the server
    receipt = await hearing.channel.send(hearing.op("of our own", key="k" * 24))
    heard = await hearing.heard_next("after")
    assert [(event.kind, event.key, event.of) for event in heard] == [("echo", "k" * 24, receipt.id)]


async def test_stickers_polls_forwards_and_embeds_are_told_in_words(hearing: DiscordHouse) -> None:
    poll = {"question": {"text": "Tea?"}, "answers": [{"poll_media": {"text": "yes"}}, {"poll_media": {"text": "no"}}]}
    hearing.double.write(hearing.direct, ANN, "", sticker_items=[{"name": "Wave"}])
    hearing.double.write(hearing.direct, ANN, "", poll=poll)
    hearing.double.write(hearing.direct, ANN, "", message_snapshots=[{"message": {"content": "from elsewhere"}}])
    hearing.double.write(hearing.direct, ANN, "", embeds=[{"title": "Build 12", "description": "failed"}])
    heard = await hearing.hear(4)
    assert [event.text for event in heard] == [
        "[sticker: Wave]", "[poll: Tea? (yes / no)]", "from elsewhere", "Build 12\nfailed",
    ]  # fmt: skip
    assert heard[2].data["forwarded"] == "somebody"


async def test_files_are_kept_before_their_message_and_those_of_strangers_are_not(hearing: DiscordHouse) -> None:
    hearing.inbox.strangers.add(BOB)
    hearing.double.write(hearing.direct, ANN, "look", files={"list.txt": "milk"})
    hearing.double.write(hearing.room, BOB, "", files={"list.txt": "malware"})
    known, stranger = await hearing.hear(2)
    [kept] = known.files
    assert isinstance(kept, Kept) and (kept.name, kept.size, kept.mime) == ("list.txt", 4, "text/plain")
    assert stranger.files == (Missing("list.txt", "it was not fetched: its sender is not known here", "text/plain"),)
    assert len(hearing.double.asked("/attachments/")) == 1


async def test_a_file_that_is_gone_is_missing_and_its_message_is_not(hearing: DiscordHouse) -> None:
    place = hearing.double.channels[hearing.direct]
    body = hearing.double.make_message(place.id, hearing.double.accounts[ANN], "see")
    body["attachments"] = [hearing.double.attach("a.txt", b"x")]
    hearing.double.files.clear()
    hearing.double.add_message(place.id, body)
    [message] = await hearing.hear(1)
    assert message.text == "see"
    assert message.files == (Missing("a.txt", "Discord does not give it any more", "text/plain"),)


@pytest.mark.parametrize(
    "address", ["http://cdn.discordapp.com/a", "https://169.254.169.254/a", "https://cdn.discordapp.com.evil.org/a", ""]
)
async def test_files_come_from_discords_own_hosts_only(address: str) -> None:
    with pytest.raises(FileGone, match="not one of Discord's"):
        async for _ in DiscordApi(DiscordSettings(TOKEN)).download(address):
            pass


# ---------------------------------------------------------------- threads


async def test_a_thread_is_a_place_of_its_own_in_its_channel(hearing: DiscordHouse) -> None:
    thread = hearing.double.thread(hearing.room, "pruning")
    hearing.double.write(thread, ANN, "when?")
    [message] = await hearing.hear(1)
    assert message.address == f"{hearing.room}:thread-{thread}" and message.title == "Garden #roses: pruning"
    assert message.key.startswith(f"{thread}/")
    await hearing.channel.send(hearing.op("in March", to=message.address))
    assert hearing.double.texts(thread) == ["in March"]


async def test_a_thread_that_is_not_known_any_more_is_looked_up(hearing: DiscordHouse) -> None:
    thread = hearing.double.thread(hearing.room, "pruning")
    await hearing.heard_next("so that the thread is known")
    await hearing.restart()  # resumed: Discord lists no channels
    hearing.double.write(thread, ANN, "when?")
    heard = [event for event in await hearing.hear(2) if event.text == "when?"]
    assert heard[0].address == f"{hearing.room}:thread-{thread}"


async def test_threads_can_belong_to_the_session_of_their_channel(tmp_path: Path) -> None:
    async with discord(tmp_path, threads="room") as house:
        await house.online()
        thread = house.double.thread(house.room, "pruning")
        house.double.write(thread, ANN, "when?")
        [message] = await house.hear(1)
        assert message.address == house.room
        await house.channel.send(house.op("in March", answers=Answers(message.key, ANN, message.data)))
        assert house.double.texts(thread) == ["in March"]


async def test_a_mention_can_open_a_thread_where_it_is_answered(tmp_path: Path) -> None:
    async with discord(tmp_path, threads="open") as house:
        await house.online()
        id = house.double.write(house.room, ANN, f"<@{BOT}> prune the roses, please")
        [message] = await house.hear(1)
        assert message.address == f"{house.room}:thread-{id}"
        op = house.op("Gladly.", to=message.address, answers=Answers(message.key, ANN, message.data))
        with pytest.raises(NotSent, match="a thread was opened"):
            await house.channel.send(op)
        await house.channel.send(op)
        assert house.double.texts(id) == ["Gladly."] and house.double.channels[id].name == "prune the roses, please"
        house.double.write(id, ANN, "thanks")
        heard = await house.heard_next("after")
        assert [event.address for event in heard if event.text == "thanks"] == [message.address]


async def test_every_message_in_a_thread_that_the_bot_opened_is_for_it(tmp_path: Path) -> None:
    async with discord(tmp_path, threads="open") as house:
        await house.online()
        id = house.double.write(house.room, ANN, f"<@{BOT}> prune the roses, please")
        with pytest.raises(NotSent, match="a thread was opened"):
            await house.channel.send(house.op("Gladly.", to=f"{house.room}:thread-{id}"))
        other = house.double.thread(house.room, "gossip")
        house.double.write(id, ANN, "and the hedge")
        house.double.write(other, ANN, "lovely weather")
        await house.restart(threads="open")
        house.double.write(id, ANN, "and the lawn")
        heard = {event.text: event.mentioned for event in await house.heard_next("after")}
        assert heard["and the hedge"] and heard["and the lawn"] and not heard["lovely weather"]


async def test_a_thread_that_was_deleted_is_not_opened_for_ever(tmp_path: Path) -> None:
    async with discord(tmp_path, threads="open") as house:
        id = house.double.write(house.room, ANN, f"<@{BOT}> hello")
        house.double.fail("POST */threads", "400", code=160004, times=None)  # the message had its thread
        op = house.op("Hello.", to=f"{house.room}:thread-{id}")
        with pytest.raises(NotSent):
            await house.channel.send(op)
        with pytest.raises(Rejected, match="Unknown Channel"):
            await house.channel.send(op)


async def test_a_mention_where_no_thread_can_be_opened_is_answered_in_its_channel(tmp_path: Path) -> None:
    async with discord(tmp_path, threads="open") as house:
        house.double.channels[house.room].type = 2  # a voice channel, which has messages, too
        await house.online()
        house.double.write(house.room, ANN, f"<@{BOT}> hello")
        [message] = await house.hear(1)
        assert message.address == house.room


async def test_without_the_right_to_open_threads_a_mention_is_answered_in_its_channel(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with discord(tmp_path, threads="open") as house:
        await house.online()
        house.double.fail("POST */threads", "403", code=50013, times=None)
        id = house.double.write(house.room, ANN, f"<@{BOT}> prune the roses, please")
        [message] = await house.hear(1)
        op = house.op("Shall I?", to=message.address, buttons=(Button("Yes", "/approve 1", "allow"),))
        receipt = await house.channel.send(op)
        await house.channel.send(house.op("Well?", to=message.address))
        assert house.double.texts(house.room) == ["Shall I?", "Well?"] and id not in house.double.channels
        assert caplog.text.count("give the bot's role Create Public Threads") == 1
        house.double.press(house.room, ANN, receipt.id.partition("/")[2], "/approve 1")
        press = next(
            event for event in await house.heard_next("after") if event.of == receipt.id and event.kind != "echo"
        )
        assert (press.text, press.address) == ("/approve 1", message.address)
        await house.restart(threads="open")
        assert await house.channel.find(op, house.double.now() - 60) == receipt, "it is looked for there, too"


async def test_a_message_in_place_of_a_thread_is_answered_after_a_restart_too(tmp_path: Path) -> None:
    async with discord(tmp_path, threads="open") as house:
        await house.online()
        house.double.fail("POST */threads", "403", code=50013, times=None)
        house.double.write(house.room, ANN, f"<@{BOT}> prune the roses, please")
        [message] = await house.hear(1)
        asked, untold = (house.op(text, to=message.address) for text in ("Shall I?", "Now, or once the frost is over?"))
        receipt = await house.channel.send(asked)
        await house.heard_next("its event is stored")
        await house.restart(threads="open")
        await press_and_reply(house, receipt.id, message.address)
        await house.stop()
        house.double.fail(f"POST /channels/{house.room}/messages", "drop", after=True)
        with pytest.raises(Unknown):
            await house.fresh().send(untold)
        await house.restart(threads="open")
        found = await house.channel.find(untold, house.double.now() - 60)
        assert found is not None
        await press_and_reply(house, found.id, message.address)


async def press_and_reply(house: DiscordHouse, id: str, address: str) -> None:
    """Let Ann press a button under a message in the room, and reply to it: it belongs to the session at `address`."""
    message = id.partition("/")[2]
    house.double.press(house.room, ANN, message, "/approve 1")
    house.double.write(house.room, ANN, "go ahead", reply_to=message)
    heard = [event for event in await house.heard_next(f"after {message}") if event.of == id and event.kind != "echo"]
    assert [event.address for event in heard] == [address, address]


# ---------------------------------------------------------------- what cannot be read


async def test_a_dispatch_that_cannot_be_read_is_kept_and_the_next_one_is_heard(hearing: DiscordHouse) -> None:
    hearing.double.sessions.dispatch("MESSAGE_CREATE", lambda session: {"channel_id": "x", "content": 5, "author": {}})
    unreadable, *_ = await hearing.heard_next("after") or await hearing.hear(1)
    assert unreadable.kind == "unreadable" and b'"content": 5' in unreadable.raw
