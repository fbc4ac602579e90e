"""What comes from Slack: each message once, whatever way and how often it comes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from slack_house import ANN, BOB, BOT, ROOM, SlackDouble, SlackHouse, slack, until

from semel.channels.slack import sockets
from semel.channels.slack.address import to_number
from semel.faces.channel_check import ChannelCheck, check_channel
from semel.gateway.ports import Button, Denied, Kept, Missing, NotSent, Offline, Unknown


def number(channel: str, ts: str) -> str:
    return f"{channel}/{to_number(ts)}"


async def test_a_direct_message_is_heard_with_its_author(there: SlackHouse) -> None:
    await there.online()
    ts = there.double.write(there.direct, ANN, "a &lt; b &amp; <https://e.org|here>, <#C1|ops>")
    (heard,) = await there.hear(1)
    assert (heard.key, heard.address, heard.text) == (
        number(there.direct, ts), there.direct, "a < b & [here](https://e.org), #ops"
    )  # fmt: skip
    assert (heard.sender.id, heard.sender.name, heard.sender.bot) == (ANN, "Ann", False)
    assert (heard.group, heard.mentioned, heard.at) == (False, False, float(ts))
    await there.acknowledged()


async def test_nothing_is_acknowledged_before_it_is_kept(there: SlackHouse) -> None:
    await there.online()
    there.inbox.fail = OSError("no space left on device")
    there.double.write(there.direct, ANN, "kept later")
    assert there.task is not None
    with pytest.raises(OSError, match="no space"):
        await there.task
    assert there.double.pending
    there.task = None
    await there.online()
    assert [event.text for event in await there.hear(1)] == ["kept later"]
    await there.acknowledged()


async def test_a_message_and_its_mention_and_every_repeat_are_one(tmp_path: Path) -> None:
    async with slack(tmp_path, SlackDouble(mentions=True, repeat_s=0.3)) as there:
        await there.online()
        there.double.write(ROOM, ANN, f"<@{BOT}> hello")
        await there.hear(1)
        there.double.post_again()
        there.double.post_again()
        await there.acknowledged()
        await there.again()
        there.double.write(there.direct, ANN, "last")
        assert [event.text for event in await there.hear(2)] == ["hello", "last"]


async def test_one_message_of_a_person_under_two_time_stamps_is_one(there: SlackHouse) -> None:
    await there.online()
    for _ in range(2):
        there.double.write(there.direct, ANN, "once", client_msg_id="g-1")
    there.double.write(there.direct, ANN, "once", client_msg_id="g-2")
    there.double.write(ROOM, ANN, "elsewhere", client_msg_id="g-1")
    assert [event.text for event in await there.hear(3)] == ["once", "once", "elsewhere"]
    await there.acknowledged()
    assert len(there.inbox.events) == 3


async def test_the_mention_of_a_message_under_two_time_stamps_is_one_turn(tmp_path: Path) -> None:
    async with slack(tmp_path, SlackDouble(mentions=True)) as there:
        await there.online()
        for _ in range(2):
            there.double.write(ROOM, ANN, f"<@{BOT}> once", client_msg_id="g-1")
        there.double.write(ROOM, ANN, f"<@{BOT}> last")
        assert [event.text for event in await there.hear(2)] == ["once", "last"]
        await there.acknowledged()
        assert len(there.inbox.events) == 2


async def test_one_message_under_two_time_stamps_is_one_also_around_a_kill(there: SlackHouse) -> None:
    await there.online()
    first = there.double.write(there.direct, ANN, "once", client_msg_id="g-1")
    await there.hear(1)
    await there.acknowledged()
    await there.stop()
    del there.double.conversations[there.direct].messages[first]
    there.double.write(there.direct, ANN, "once", client_msg_id="g-1")
    await there.again()
    there.double.write(there.direct, ANN, "last")
    assert [event.text for event in await there.hear(2)] == ["once", "last"]


@pytest.mark.parametrize(
    ("policy", "mention", "plain", "reply"),
    [("start", "C100:thread-{0}", "C100", "C100:thread-{1}"), ("own", "C100", "C100", "C100:thread-{1}"),
     ("room", "C100", "C100", "C100")],
)  # fmt: skip
async def test_the_setting_threads_says_which_conversation_a_message_belongs_to(
    tmp_path: Path, policy: str, mention: str, plain: str, reply: str
) -> None:
    async with slack(tmp_path, threads=policy) as there:
        await there.online()
        first = there.double.write(ROOM, ANN, f"<@{BOT}>: look")
        second = there.double.write(ROOM, BOB, "by the way")
        there.double.write(ROOM, ANN, "in a thread", thread=second)
        heard = await there.hear(3)
        numbers = to_number(first), to_number(second)
        assert [event.address for event in heard] == [each.format(*numbers) for each in (mention, plain, reply)]
        assert [(event.text, event.mentioned, event.group, event.title) for event in heard] == [
            ("look", True, True, "general"), ("by the way", False, True, "general"),
            ("in a thread", False, True, "general"),
        ]  # fmt: skip


async def test_in_a_thread_that_began_with_a_mention_or_with_us_every_message_is_for_us(there: SlackHouse) -> None:
    await there.online()
    root = there.double.write(ROOM, ANN, f"<@{BOT}> look")
    there.double.write(ROOM, BOB, "and here", thread=root)
    receipt = await there.channel.send(there.op("news", to=ROOM))
    ours = there.double.shown(ROOM)[-1]["ts"]
    assert receipt.id == number(ROOM, ours)
    there.double.write(ROOM, BOB, "thanks", thread=ours)
    assert [event.mentioned for event in await there.hear(3)] == [True, True, True]
    await there.again()
    there.double.write(ROOM, BOB, "later", thread=root)
    assert (await there.hear(5))[-1].mentioned  # before it, the history told of our own message


async def test_a_mention_within_a_thread_of_others_makes_not_every_reply_ours(there: SlackHouse) -> None:
    await there.online()
    root = there.double.write(ROOM, ANN, "among us")
    there.double.write(ROOM, BOB, f"what does <@{BOT}> say?", thread=root)
    there.double.write(ROOM, ANN, "who knows", thread=root)
    assert [event.mentioned for event in await there.hear(3)] == [False, True, False]
    await there.stop_for_long()
    there.double.write(ROOM, BOB, "missed there", thread=root)
    await there.again()
    assert there.inbox.events[-1].text == "missed there"


@pytest.mark.parametrize("policy", ["own", "room"])
async def test_threads_that_a_mention_began_are_read_after_an_outage_by_every_setting(
    tmp_path: Path, policy: str
) -> None:
    async with slack(tmp_path, threads=policy) as there:
        await there.online()
        root = there.double.write(ROOM, ANN, f"<@{BOT}> look")
        direct = there.double.write(there.direct, ANN, "a root")
        there.double.write(there.direct, ANN, "a reply", thread=direct)
        await there.hear(3)
        await there.stop_for_long()
        there.double.write(ROOM, BOB, "missed", thread=root)
        there.double.write(there.direct, ANN, "missed, too", thread=direct)
        await there.again()
        heard = there.inbox.events[3:]
        assert {(event.text, event.mentioned) for event in heard} == {("missed", True), ("missed, too", False)}


async def test_what_is_our_own_is_no_message_and_settles_our_part(there: SlackHouse) -> None:
    await there.online()
    receipt = await there.channel.send(there.op("ours", key="k-1"))
    await there.channel.send(there.op("changed", kind="edit", target=receipt.id))
    await there.channel.send(there.op("👍", kind="react", target=receipt.id))
    there.double.write(there.direct, ANN, "theirs")
    await there.hear(1)
    await there.again()
    heard = await there.hear(2)
    assert [(event.kind, event.text) for event in heard if event.kind != "echo"] == [("message", "theirs")]
    assert [(event.key, event.of) for event in heard if event.kind == "echo"] == [("k-1", receipt.id)]


async def test_an_edit_a_deletion_and_a_reaction_refer_to_their_message(there: SlackHouse) -> None:
    await there.online()
    ts = there.double.write(ROOM, ANN, f"<@{BOT}> first")
    there.double.preview(ROOM, ts)
    there.double.edit(ROOM, ts, f"<@{BOT}> second")
    there.double.react(ROOM, ts, BOB, "thumbsup")
    there.double.react(ROOM, ts, BOB, "party_parrot", removed=True)
    there.double.remove(ROOM, ts)
    heard = await there.hear(5)
    address, of = f"{ROOM}:thread-{to_number(ts)}", number(ROOM, ts)
    assert [(event.kind, event.text, event.address, event.of, event.sender.id) for event in heard[1:]] == [
        ("edit", "second", address, of, ANN), ("reaction", "👍", address, of, BOB),
        ("reaction", ":party_parrot:", address, of, BOB), ("delete", "", address, of, ANN),
    ]  # fmt: skip
    assert heard[3].removed and len({event.key for event in heard}) == 5


async def test_a_message_with_replies_that_is_deleted_leaves_a_deletion(there: SlackHouse) -> None:
    await there.online()
    ts = there.double.write(ROOM, ANN, "root")
    there.double.write(ROOM, BOB, "reply", thread=ts)
    there.double.remove(ROOM, ts)
    heard = await there.hear(3)
    assert (heard[2].kind, heard[2].of, heard[2].sender.id) == ("delete", number(ROOM, ts), ANN)


async def test_what_slack_says_itself_and_strange_events_are_no_messages(there: SlackHouse) -> None:
    await there.online()
    there.double.write(ROOM, ANN, "joined", subtype="channel_join")
    there.double.tell_event({"type": "team_join", "user": {"id": "U99"}})
    there.double.tell_event({"type": "message", "channel": ROOM, "ts": "odd", "user": ANN, "text": "x"})
    there.double.write(ROOM, "", "from a bot", subtype="bot_message", bot_id="B9", username="CI")
    heard = await there.hear(2)
    assert (heard[0].kind, b'"odd"' in heard[0].raw) == ("unreadable", True)
    assert (heard[1].sender.id, heard[1].sender.name, heard[1].sender.bot) == ("B9", "CI", True)


async def test_a_slash_command_is_a_command_to_the_gateway(there: SlackHouse) -> None:
    await there.online()
    there.double.command(ROOM, ANN, "stop")
    there.double.command(there.direct, ANN, "")
    heard = await there.hear(2)
    assert [(event.text, event.address, event.mentioned) for event in heard] == [
        ("/stop", ROOM, True), ("/help", there.direct, True)
    ]  # fmt: skip
    assert heard[0].key != heard[1].key


async def test_files_come_with_the_bots_token_and_not_from_elsewhere(there: SlackHouse) -> None:
    await there.online()
    there.double.send_file(there.direct, ANN, "list.txt", b"milk", "shopping")
    there.inbox.strangers.add(BOB)
    there.double.send_file(ROOM, BOB, "secret.txt", b"?")
    foreign = {"id": "F9", "name": "x", "mimetype": "text/plain", "size": 1, "url_private": "https://evil.example/x"}
    there.double.write(there.direct, ANN, "", subtype="file_share", files=[foreign])
    there.double.write(there.direct, ANN, "", subtype="file_share", files=[{"id": "F8", "mode": "tombstone"}])
    heard = await there.hear(4)
    assert isinstance(heard[0].files[0], Kept) and heard[0].files[0].size == 4 and heard[0].text == "shopping"
    missing = [event.files[0] for event in heard[1:]]
    assert all(isinstance(file, Missing) for file in missing)
    assert [file.why.split(":")[0] for file in missing] == [
        "it was not fetched", "its address is not at Slack", "it was deleted"
    ]  # fmt: skip


async def test_a_file_without_the_scope_for_files_is_named_as_missing(there: SlackHouse) -> None:
    there.double.scopes.discard("files:read")
    await there.online()
    there.double.send_file(there.direct, ANN, "list.txt", b"milk")
    (heard,) = await there.hear(1)
    assert "files:read" in heard.files[0].why


@pytest.mark.parametrize("how", ["500", "drop"])
async def test_a_file_that_slack_does_not_give_is_named_and_the_channel_stays_online(
    there: SlackHouse, how: Any
) -> None:
    await there.online()
    there.double.fail("file", how, times=None)
    there.double.send_file(there.direct, ANN, "list.txt", b"milk", "shopping")
    there.double.write(there.direct, ANN, "next")
    heard = await there.hear(2)
    assert [event.text for event in heard] == ["shopping", "next"]
    [file] = heard[0].files
    assert isinstance(file, Missing) and file.name == "list.txt"
    assert file.why.startswith("it could not be fetched: ") and ("HTTP 500" in file.why) == (how == "500")
    assert there.task is not None and not there.task.done() and there.inbox.onlines == 1


async def test_a_file_of_a_recorded_message_is_not_asked_for_again(there: SlackHouse) -> None:
    await there.online()
    there.double.send_file(there.direct, ANN, "list.txt", b"milk", "shopping")
    await there.hear(1)
    await there.acknowledged()
    there.double.fail("file", "500", times=9)
    await there.again()
    assert there.task is not None and not there.task.done()
    assert there.double.faults[0].times == 9
    [shopping] = there.inbox.events
    assert isinstance(shopping.files[0], Kept)


# ---------------------------------------------------------------- what was missed


async def test_what_was_written_during_an_outage_is_heard_in_order_with_its_threads(there: SlackHouse) -> None:
    await there.online()
    root = there.double.write(ROOM, ANN, f"<@{BOT}> begin")
    old = there.double.write(ROOM, BOB, "another")
    await there.hear(2)
    await there.stop()
    texts = [f"missed {n}" for n in range(230)]
    for text in texts:
        there.double.write(there.direct, ANN, text)
    there.double.write(ROOM, BOB, "in our thread", thread=root)
    new = there.double.write(ROOM, ANN, "a new root")
    there.double.write(ROOM, BOB, "in the new thread", thread=new)
    there.double.edit(ROOM, old, "another, changed")
    await there.again()
    heard = there.inbox.events
    assert [event.text for event in heard if event.address == there.direct] == texts
    assert [(event.kind, event.text) for event in heard[2:] if event.address != there.direct] == [
        ("edit", "another, changed"), ("message", "in our thread"), ("message", "a new root"),
        ("message", "in the new thread"),
    ]  # fmt: skip
    before = len(heard)
    await there.again()
    assert len(there.inbox.events) == before


async def test_a_first_run_begins_at_the_present(there: SlackHouse) -> None:
    there.double.write(there.direct, ANN, "before")
    await there.online()
    there.double.write(there.direct, ANN, "after")
    assert [event.text for event in await there.hear(1)] == ["after"]
    await there.again()
    assert [event.text for event in there.inbox.events] == ["after"]


async def test_a_missed_part_of_one_conversation_is_not_passed_by_another(there: SlackHouse) -> None:
    """A death between two conversations of the backfill loses nothing: the cursor stays until all are read."""
    await there.online()
    await there.stop()
    there.double.write(there.direct, ANN, "first")
    await asyncio.sleep(0.01)
    there.double.write(ROOM, ANN, "second")
    at = json.loads(str(there.inbox.at))["at"]
    there.double.fail("conversations.history", "500", times=1)
    with pytest.raises(Offline):
        await there.fresh().run(there.inbox)
    assert json.loads(str(there.inbox.at))["at"] == at
    await there.again()
    assert {event.text for event in there.inbox.events} == {"first", "second"}


async def test_the_history_waits_for_a_rate_limit(there: SlackHouse) -> None:
    await there.online()
    await there.stop()
    there.double.write(there.direct, ANN, "missed")
    there.double.fail("conversations.history", "429", retry_after=1)
    await there.again()
    assert [event.text for event in there.inbox.events] == ["missed"]


async def test_a_conversation_that_cannot_be_read_keeps_nothing_else_back(there: SlackHouse) -> None:
    await there.online()
    await there.stop()
    there.double.scopes.discard("channels:history")
    there.double.write(ROOM, ANN, "unreadable")
    there.double.write(there.direct, ANN, "missed")
    await there.again()
    assert [event.text for event in there.inbox.events] == ["missed"]


@pytest.mark.parametrize("code", ["no_permission", "access_denied"])
async def test_a_conversation_that_slack_refuses_keeps_nothing_else_back(there: SlackHouse, code: str) -> None:
    await there.online()
    await there.stop()
    there.double.write(there.direct, ANN, "missed")
    there.double.fail("conversations.history", "error", code=code, skip=1)
    await there.again()
    assert [event.text for event in there.inbox.events] == ["missed"]


# ---------------------------------------------------------------- connections


async def test_a_connection_survives_a_long_history_while_many_events_come(
    there: SlackHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nobody takes them, the library's queue fills: then it must go on to read, or no pong comes through."""
    await there.online()
    await there.stop()
    monkeypatch.setattr(sockets, "PING_INTERVAL_S", 0.1)
    there.double.fail("conversations.history", "429", retry_after=1)
    reading = asyncio.create_task(there.online())
    await until(lambda: bool(there.double.links))
    for n in range(60):
        there.double.write(ROOM, ANN, f"message {n}")
    await reading
    await there.hear(60)
    await there.acknowledged()
    assert there.task is not None and not there.task.done() and len(there.asked("apps.connections.open")) == 2


async def test_a_press_does_not_wait_for_a_long_history_and_messages_do(there: SlackHouse) -> None:
    await there.online()
    await there.channel.send(there.op("May I?", key="k-9", buttons=(Button("Yes", "/approve 3", "allow"),)))
    await there.stop()
    before = str(there.inbox.at)
    there.double.write(there.direct, ANN, "missed")
    there.double.fail("conversations.history", "429", times=None)
    reading = asyncio.create_task(there.online())
    await until(lambda: bool(there.double.links))
    there.double.write(there.direct, ANN, "live")
    there.double.press(there.direct, there.double.shown(there.direct)[0]["ts"], "Yes", ANN)
    assert [event.text for event in await there.hear(2)][1] == "/approve 3"
    await until(lambda: not any(each.envelope["type"] == "interactive" for each in there.double.pending.values()))
    assert not reading.done() and json.loads(str(there.inbox.at))["at"] == json.loads(before)["at"]
    there.double.faults.clear()
    await reading
    assert [event.text for event in (await there.hear(4))[2:]] == ["missed", "live"]
    await there.acknowledged()


async def test_too_many_connections_are_no_reason_to_open_another_one_at_once(there: SlackHouse) -> None:
    await there.online()
    there.double.disconnect("too_many_websockets")
    assert there.task is not None
    with pytest.raises(Offline, match="this app has more than ten connections"):
        await asyncio.wait_for(there.task, 5)


async def test_a_token_that_is_revoked_while_the_connection_stays_is_denied(there: SlackHouse) -> None:
    await there.online()
    there.double.bot_token = "xoxb-another-token-1234"
    with pytest.raises(NotSent, match="does not accept this bot's token"):
        await there.channel.send(there.op("hello"))
    assert there.task is not None
    with pytest.raises(Denied, match="does not accept this bot's token"):
        await asyncio.wait_for(there.task, 5)


async def test_a_connection_that_slack_renews_loses_nothing_and_stays_online(there: SlackHouse) -> None:
    await there.online()
    for n in range(3):
        before = len(there.asked("apps.connections.open"))
        there.double.disconnect()
        await until(lambda before=before: len(there.asked("apps.connections.open")) > before)  # type: ignore[misc]
        there.double.write(there.direct, ANN, f"message {n}")
        await there.hear(n + 1)
    assert [event.text for event in there.inbox.events] == ["message 0", "message 1", "message 2"]
    assert there.inbox.onlines == 1 and there.task is not None and not there.task.done()


async def test_socket_mode_that_was_switched_off_is_said(there: SlackHouse) -> None:
    await there.online()
    there.double.disconnect("link_disabled")
    assert there.task is not None
    with pytest.raises(Denied, match="Socket Mode is switched off"):
        await there.task


@pytest.mark.parametrize(
    ("change", "told"),
    [({"bot_token": "xoxb-another-token-1234"}, "does not accept this bot's token"),
     ({"app_token": "xapp-another-token-1234"}, "does not accept app_token")],
)  # fmt: skip
async def test_a_refused_token_is_denied_and_named(there: SlackHouse, change: dict[str, Any], told: str) -> None:
    with pytest.raises(Denied, match=told) as denied:
        await there.fresh(**change).run(there.inbox)
    assert not any(str(value) in str(denied.value) for value in change.values())
    assert there.inbox.puts == []


async def test_an_account_is_tried_without_reading_anything(there: SlackHouse) -> None:
    """As `semel init` does: both tokens, the scopes and the connection."""
    there.double.write(there.direct, ANN, "not read")
    assert await check_channel(there.fresh()) == ChannelCheck()
    there.double.scopes.discard("im:history")
    refused = await check_channel(there.fresh())
    assert refused.refused and "lacks im:history" in refused.problem
    assert there.asked("conversations.history") == []


async def test_missing_scopes_are_named_before_anything_is_read(there: SlackHouse) -> None:
    there.double.scopes -= {"chat:write", "users:read"}
    with pytest.raises(Denied, match="lacks chat:write, users:read: add them under OAuth & Permissions"):
        await there.fresh().run(there.inbox)


async def test_another_bots_token_in_the_same_section_is_denied_and_neither_sends_nor_finds(there: SlackHouse) -> None:
    await there.online()
    await there.stop()
    there.double.bot_user, there.double.people["U1BOT"] = "U1BOT", {"id": "U1BOT", "name": "other"}
    channel = there.fresh()
    with pytest.raises(Denied, match="belongs to another bot"):
        await channel.run(there.inbox)
    with pytest.raises(Exception, match="belongs to another bot"):
        await channel.send(there.op("hello"))
    with pytest.raises(Unknown, match="belongs to another bot"):
        await channel.find(there.op("hello"), 0.0)
