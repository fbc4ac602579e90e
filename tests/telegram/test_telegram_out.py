"""What leaves for Telegram: one request for each attempt, and what its answer means."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from telegram_house import ANNA, FORUM, GROUP, TelegramHouse, png, telegram

from semel.channels import make
from semel.channels.telegram.channel import TelegramChannel
from semel.channels.telegram.settings import TelegramSettings
from semel.gateway.ports import Answers, NotSent, Receipt, Rejected, Safety, Unknown
from semel.gateway.settings import ChannelSettings
from semel.testing.telegram import TOKEN, TelegramDouble


@pytest.fixture
async def group(there: TelegramHouse) -> TelegramHouse:
    there.double.group(GROUP, "House")
    there.double.group(FORUM, "Forum", forum=True, status="administrator")
    there.double.write(ANNA, "/start")
    return there


@pytest.fixture
async def anna(there: TelegramHouse) -> TelegramHouse:
    there.double.write(ANNA, "/start")
    return there


# ---------------------------------------------------------------- text


async def test_a_text_arrives_with_its_formatting_and_its_receipt_names_chat_and_message(anna: TelegramHouse) -> None:
    receipt = await anna.channel.send(anna.op("Hello **you** 😀"))
    [_, shown] = anna.double.shown(ANNA)
    assert receipt == Receipt(f"{ANNA}/{shown['id']}")
    assert shown["text"] == "Hello you 😀"
    assert shown["entities"] == [{"type": "bold", "offset": 6, "length": 3}]
    assert anna.double.asked("sendMessage")[0]["params"]["link_preview_options"] == {"is_disabled": True}


async def test_previews_of_links_are_a_setting(tmp_path: Path) -> None:
    async with telegram(tmp_path, previews=True) as house:
        house.double.write(ANNA, "hi")
        await house.channel.send(house.op("https://a.b"))
        assert house.double.asked("sendMessage")[0]["params"]["link_preview_options"] == {"is_disabled": False}


async def test_the_longest_part_fits_also_when_it_is_marked_as_a_repeat(anna: TelegramHouse) -> None:
    most = anna.channel.caps.max_len
    assert most is not None
    await anna.channel.send(anna.op("😀" * (most // 2), marked=True))
    assert anna.double.texts(ANNA)[0].startswith("(repeat) 😀")
    with pytest.raises(Rejected, match="too long"):
        await anna.channel.send(anna.op("x" * 4097))


async def test_the_sign_of_a_repeat_does_not_spoil_the_formatting(anna: TelegramHouse) -> None:
    await anna.channel.send(anna.op("```py\nx = 1\n```\n**b**", marked=True))
    shown = anna.double.shown(ANNA)[1]
    assert shown["text"] == "(repeat) x = 1\nb"
    assert [(each["type"], each["offset"]) for each in shown["entities"]] == [("pre", 9), ("bold", 15)]


async def test_what_telegram_refuses_for_its_formatting_goes_without(
    anna: TelegramHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = lambda text, most: (text, [{"type": "bold", "offset": 0, "length": 99}])  # noqa: E731
    monkeypatch.setattr("semel.channels.telegram.send.render", wrong)
    op = anna.op("**x**")
    with pytest.raises(NotSent, match="without formatting") as no:
        await anna.channel.send(op)
    assert no.value.retry_after == 0
    await anna.channel.send(op)
    assert anna.double.texts(ANNA) == ["**x**"]
    assert len(anna.double.asked("sendMessage")) == 2


async def test_an_answer_in_a_group_is_a_reply_and_only_its_first_part(group: TelegramHouse) -> None:
    asked = group.double.write(GROUP, "what? @test_semel_bot", sender=ANNA)
    answers = Answers(f"{GROUP}/{asked}")
    for n in (0, 1):
        await group.channel.send(group.op("this", to=str(GROUP), answers=answers, n=n))
    first, second = group.double.shown(GROUP)[1:]
    assert first["reply_to"] == asked
    assert "reply_to" not in second


async def test_a_reply_to_what_was_deleted_is_sent_without(group: TelegramHouse) -> None:
    asked = group.double.write(GROUP, "what? @test_semel_bot", sender=ANNA)
    group.double.remove(GROUP, asked)
    await group.channel.send(group.op("this", to=str(GROUP), answers=Answers(f"{GROUP}/{asked}")))
    assert group.double.texts(GROUP) == ["this"]


@pytest.mark.parametrize("id", ["-999/3", "odd", "<m@example.org>"])
async def test_what_was_asked_elsewhere_is_no_reply(group: TelegramHouse, id: str) -> None:
    await group.channel.send(group.op("this", to=str(GROUP), answers=Answers(id)))
    assert "reply_parameters" not in group.double.asked("sendMessage")[0]["params"]


async def test_a_private_answer_carries_no_reply_mark(anna: TelegramHouse) -> None:
    await anna.channel.send(anna.op("this", answers=Answers(f"{ANNA}/1")))
    assert "reply_to" not in anna.double.shown(ANNA)[1]


async def test_a_topic_is_part_of_the_address(group: TelegramHouse) -> None:
    topic = group.double.topic(FORUM, "Garden")
    await group.channel.send(group.op("in it", to=f"{FORUM}:topic-{topic}"))
    await group.channel.send(group.op("outside", to=str(FORUM)))
    await group.channel.send(group.op("general", to=f"{FORUM}:topic-1"))
    told = [(each["text"], each.get("topic")) for each in group.double.shown(FORUM)[1:]]
    assert told == [("in it", topic), ("outside", None), ("general", None)]
    with pytest.raises(Rejected, match="topic does not exist"):
        await group.channel.send(group.op("x", to=f"{FORUM}:topic-999"))


async def test_a_direct_message_of_a_channel_is_answered_in_the_topic_of_its_person(group: TelegramHouse) -> None:
    chat = -1_002_222_222_222
    group.double.group(chat, "Garden News", direct=True, status="administrator")
    first = group.double.write(chat, "hello", sender=ANNA)
    group.double.write(chat, "me too", sender=8)
    await group.online()
    anna, bert = (await group.hear(3))[-2:]
    assert (anna.address, bert.address) == (f"{chat}:direct-{ANNA}", f"{chat}:direct-{8}")
    for event in (anna, bert):
        receipt = await group.channel.send(group.op(f"for {event.sender and event.sender.id}", to=event.address))
        await group.channel.typing(event.address)
        id = int(receipt.id.rpartition("/")[2])
        topic = group.double.chats[chat].messages[id].body["direct_messages_topic"]["topic_id"]
        assert event.sender is not None and str(topic) == event.sender.id
    assert group.double.asked("sendChatAction") == [], "Telegram has no sign of typing in such a topic"
    group.double.react(chat, first, "👍", sender=ANNA)
    assert (await group.hear(4))[-1].address == f"{chat}:direct-{ANNA}"
    with pytest.raises(Rejected, match="topic must be specified"):
        await group.channel.send(group.op("to whom?", to=str(chat)))


async def test_typing_is_shown_in_the_topic(group: TelegramHouse) -> None:
    topic = group.double.topic(FORUM, "Garden")
    await group.channel.typing(f"{FORUM}:topic-{topic}")
    await group.channel.typing(str(ANNA))
    assert group.double.typing() == [
        {"chat": FORUM, "topic": topic, "action": "typing"},
        {"chat": ANNA, "topic": None, "action": "typing"},
    ]


# ---------------------------------------------------------------- edits, deletions, reactions


async def test_an_edit_is_the_same_however_often_it_leaves(anna: TelegramHouse) -> None:
    receipt = await anna.channel.send(anna.op("one"))
    for _ in range(3):
        assert await anna.channel.send(anna.op("**two**", kind="edit", target=receipt.id)) == receipt
    assert anna.double.texts(ANNA) == ["two"]


async def test_the_text_of_a_file_is_edited_too(anna: TelegramHouse) -> None:
    file = anna.file(b"x", "a.txt")
    receipt = await anna.channel.send(anna.op("one", kind="file", file=file, name="a.txt", mime="text/plain"))
    await anna.channel.send(anna.op("two", kind="edit", target=receipt.id))
    assert anna.double.texts(ANNA) == ["two"]
    with pytest.raises(Rejected, match="1024"):
        await anna.channel.send(anna.op("x" * 1025, kind="edit", target=receipt.id))


async def test_what_cannot_be_edited_says_why(anna: TelegramHouse) -> None:
    receipt = await anna.channel.send(anna.op("one"))
    anna.double.remove(ANNA, int(receipt.id.partition("/")[2]))
    with pytest.raises(Rejected, match="message to edit not found"):
        await anna.channel.send(anna.op("two", kind="edit", target=receipt.id))
    with pytest.raises(Rejected, match="can't be edited"):
        await anna.channel.send(anna.op("two", kind="edit", target=f"{ANNA}/1"))
    with pytest.raises(Rejected, match="CHAT/MESSAGE"):
        await anna.channel.send(anna.op("two", kind="edit", target="$abc"))


async def test_a_deletion_of_what_is_gone_is_done(anna: TelegramHouse) -> None:
    receipt = await anna.channel.send(anna.op("one"))
    for _ in range(2):
        assert await anna.channel.send(anna.op(kind="delete", target=receipt.id)) == receipt
    assert anna.double.texts(ANNA) == []


async def test_what_is_too_old_cannot_be_deleted(anna: TelegramHouse) -> None:
    receipt = await anna.channel.send(anna.op("one"))
    anna.double.advance(49 * 3600)
    with pytest.raises(Rejected, match="can't be deleted"):
        await anna.channel.send(anna.op(kind="delete", target=receipt.id))


@pytest.mark.parametrize(("emoji", "kept"), [("👍", "👍"), ("❤️", "❤"), ("❤️‍🔥", "❤‍🔥"), ("+1", "👍")])
async def test_a_reaction_is_set_in_telegrams_writing(anna: TelegramHouse, emoji: str, kept: str) -> None:
    for _ in range(2):
        assert await anna.channel.send(anna.op(emoji, kind="react", target=f"{ANNA}/1")) == Receipt(f"{ANNA}/1")
    assert list(anna.double.shown(ANNA)[0]["reactions"].values()) == [[kept]]
    await anna.channel.send(anna.op("", kind="react", target=f"{ANNA}/1"))
    assert "reactions" not in anna.double.shown(ANNA)[0]


async def test_another_emoji_is_refused_with_those_that_do(anna: TelegramHouse) -> None:
    with pytest.raises(Rejected, match="takes no 🦜 as a reaction; it takes 👍"):
        await anna.channel.send(anna.op("🦜", kind="react", target=f"{ANNA}/1"))
    assert anna.double.asked() == []


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("name", "mime", "content", "kind"),
    [
        ("a.png", "image/png", png(), "photo"),
        ("a.jpg", "image/jpeg", b"\xff\xd8\xff rest", "photo"),
        ("a.mp3", "audio/mpeg", b"ID3", "audio"),
        ("a.ogg", "audio/ogg", b"OggS", "voice"),
        ("a.mp4", "video/mp4", b"ftyp", "video"),
        ("a.gif", "image/gif", b"GIF89a", "document"),
        ("ü \"x\".pdf", "application/pdf", b"%PDF\r\n--\r\n\0\xff", "document"),
        ("no-kind", None, b"x", "document"),
    ],
)  # fmt: skip
async def test_a_file_is_shown_as_what_it_is(
    anna: TelegramHouse, name: str, mime: str | None, content: bytes, kind: str
) -> None:
    file = anna.file(content, "content")
    receipt = await anna.channel.send(anna.op("**see**", kind="file", file=file, name=name, mime=mime))
    shown = anna.double.shown(ANNA)[1]
    assert receipt.id == f"{ANNA}/{shown['id']}"
    assert shown["file"] == {"kind": kind, "name": name.replace('"', "%22"), "size": len(content)}
    assert (shown["text"], shown["entities"]) == ("see", [{"type": "bold", "offset": 0, "length": 3}])
    assert anna.double.files["file-1"].content == content


@pytest.mark.parametrize("content", [png(9000, 3000), png(1, 40), b"no picture at all"])
async def test_a_picture_that_telegram_does_not_take_goes_as_a_document(anna: TelegramHouse, content: bytes) -> None:
    op = anna.op("**see**", kind="file", file=anna.file(content, "a.png"), name="a.png", mime="image/png")
    with pytest.raises(NotSent, match="as a document"):
        await anna.channel.send(op)
    await anna.channel.send(op)
    assert [each["method"] for each in anna.double.asked()] == ["sendPhoto", "sendDocument"]
    shown = anna.double.shown(ANNA)[1]
    assert shown["file"]["kind"] == "document"
    assert (shown["text"], shown["entities"]) == ("see", [{"type": "bold", "offset": 0, "length": 3}])


async def test_a_picture_of_more_than_10_mb_is_a_document(anna: TelegramHouse) -> None:
    file = anna.file(png() + bytes(10_000_001), "a.png")
    await anna.channel.send(anna.op(kind="file", file=file, name="a.png", mime="image/png"))
    assert anna.double.shown(ANNA)[1]["file"]["kind"] == "document"


async def test_a_caption_that_is_too_long_is_refused_before_anything_leaves(anna: TelegramHouse) -> None:
    op = anna.op("x" * 1025, kind="file", file=anna.file(b"x", "a.txt"), name="a.txt")
    with pytest.raises(Rejected, match="1024"):
        await anna.channel.send(op)
    assert anna.double.asked() == []


async def test_a_file_that_is_not_there_is_refused(anna: TelegramHouse) -> None:
    for file in (anna.tmp_path / "gone", None):
        with pytest.raises(Rejected, match="file"):
            await anna.channel.send(anna.op(kind="file", file=file, name="a.txt"))


# ---------------------------------------------------------------- what the answers mean


async def test_an_answer_that_is_lost_after_telegram_took_it_is_unknown(anna: TelegramHouse) -> None:
    for how in ("drop", "cut", "500", "502"):
        anna.double.fail("sendMessage", how, after=True)
        with pytest.raises(Unknown):
            await anna.channel.send(anna.op(how))
    assert anna.double.texts(ANNA) == ["drop", "cut", "500", "502"]
    assert len(anna.double.asked("sendMessage")) == 4  # one for each attempt


async def test_a_server_error_is_unknown_also_where_nothing_was_taken(anna: TelegramHouse) -> None:
    for how in ("drop", "cut", "500", "502"):
        anna.double.fail("sendMessage", how)
        with pytest.raises(Unknown):
            await anna.channel.send(anna.op(how))
    assert anna.double.texts(ANNA) == []
    assert len(anna.double.asked("sendMessage")) == 4


async def test_a_no_that_breaks_off_is_asked_for_again(anna: TelegramHouse) -> None:
    anna.double.block(ANNA)
    anna.double.fail("sendMessage", "cut", after=True)
    op = anna.op("x")
    with pytest.raises(NotSent, match="broke off"):
        await anna.channel.send(op)
    with pytest.raises(Rejected, match="unblock"):
        await anna.channel.send(op)


async def test_no_answer_at_all_is_unknown_after_the_time_out(tmp_path: Path) -> None:
    async with telegram(tmp_path, timeout=0.3) as house:
        house.double.write(ANNA, "hi")
        house.double.fail("sendMessage", "hang", after=True)
        with pytest.raises(Unknown, match="in time"):
            await house.channel.send(house.op("x"))
        assert len(house.double.asked("sendMessage")) == 1


async def test_too_many_requests_waits_as_long_as_telegram_says(anna: TelegramHouse) -> None:
    anna.double.fail("sendMessage", "429", retry_after=17)
    with pytest.raises(NotSent) as no:
        await anna.channel.send(anna.op("x"))
    assert no.value.retry_after == 17
    assert len(anna.double.asked("sendMessage")) == 1


async def test_a_refused_connection_is_provably_not_sent(anna: TelegramHouse) -> None:
    channel = anna.fresh(api="http://127.0.0.1:9")
    with pytest.raises(NotSent):
        await channel.send(anna.op("x"))


async def test_a_wrong_token_waits_for_a_right_one(anna: TelegramHouse) -> None:
    anna.double.retoken("8000000001:BB" + "b" * 33)
    with pytest.raises(NotSent, match="BotFather") as no:
        await anna.channel.send(anna.op("x"))
    assert no.value.retry_after == 60
    assert str(no.value) in anna.channel.caps.account_refusals, "after a restart, it is tried at once"


@pytest.mark.parametrize(
    ("prepare", "to", "why"),
    [
        (lambda d: d.block(ANNA), str(ANNA), "unblock"),
        (lambda d: d.member(GROUP, "kicked"), str(GROUP), "add the bot to the group again"),
        (lambda d: d.member(GROUP, "left"), str(GROUP), "not a member"),
        (lambda d: None, "99", "never wrote"),
        (lambda d: None, f"{FORUM}:topic-99", "this topic does not exist"),
        (lambda d: None, "@somebody", "not a Telegram address"),
    ],
)
async def test_a_definite_no_is_rejected_and_says_what_to_do(
    group: TelegramHouse, prepare: Any, to: str, why: str
) -> None:
    prepare(group.double)
    with pytest.raises(Rejected, match=why):
        await group.channel.send(group.op("x", to=to))


async def test_what_is_for_a_private_topic_that_is_gone_goes_to_the_chat(there: TelegramHouse) -> None:
    there.double.write(ANNA, "hello")
    topic = there.double.topic(ANNA, "Garden")
    del there.double.chats[ANNA].topics[topic]
    op = there.op("In March.", to=f"{ANNA}:topic-{topic}")
    with pytest.raises(NotSent, match="thread not found"):
        await there.channel.send(op)
    await there.channel.send(op)
    assert there.double.texts(ANNA) == ["In March."]


async def test_a_group_that_moved_is_followed(group: TelegramHouse) -> None:
    group.double.migrate(GROUP)
    op = group.op("x", to=str(GROUP))
    with pytest.raises(NotSent, match="moved"):
        await group.channel.send(op)
    receipt = await group.channel.send(op)
    new = -1_000_000_000_000 - abs(GROUP)
    assert group.double.texts(new) == ["x"]
    assert receipt.id.startswith(f"{new}/")


async def test_what_was_said_before_a_group_moved_cannot_be_changed(group: TelegramHouse) -> None:
    receipt = await group.channel.send(group.op("x", to=str(GROUP)))
    group.double.migrate(GROUP)
    for kind in ("edit", "react", "delete"):
        with pytest.raises(Rejected, match="became a supergroup"):
            await group.channel.send(group.op("👍", to=str(GROUP), kind=kind, target=receipt.id))


async def test_a_group_that_says_it_moved_where_it_is_is_no_loop(group: TelegramHouse) -> None:
    new = group.double.migrate(GROUP)
    group.double.chats[new].moved_to = new
    op = group.op("x", to=str(GROUP))
    with pytest.raises(NotSent):
        await group.channel.send(op)
    with pytest.raises(Rejected, match="says the same"):
        await group.channel.send(op)


async def test_a_page_of_something_else_is_no_answer_of_telegrams(anna: TelegramHouse) -> None:
    channel = anna.fresh(api=f"{anna.url}/elsewhere")
    with pytest.raises(NotSent, match="BotFather"):  # 404, as for a token that is none
        await channel.send(anna.op("x"))


async def test_it_cannot_be_asked_what_it_sent(anna: TelegramHouse) -> None:
    assert anna.channel.caps.safety is Safety.AT_MOST_ONCE
    with pytest.raises(NotImplementedError):
        await anna.channel.find(anna.op("x"), 0)


# ---------------------------------------------------------------- the token


async def test_the_token_stands_in_no_error_no_log_and_no_repr(
    anna: TelegramHouse, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = [repr(anna.channel), repr(anna.channel.settings), repr(anna.channel._api)]
    anna.double.send_file(ANNA, b"x", name="a.txt")
    for method, how in (("sendMessage", "drop"), ("sendMessage", "500"), ("sendMessage", "429")):
        anna.double.fail(method, how)  # type: ignore[arg-type]
    for channel in (anna.channel,) * 4 + (anna.fresh(api="http://127.0.0.1:9"),):
        try:
            await channel.send(anna.op("x"))
        except (NotSent, Unknown) as no:
            said.append(str(no))
    await anna.online()
    await anna.hear(2)
    anna.double.retoken("8000000001:BB" + "b" * 33)
    anna.double.write(ANNA, "y")
    with pytest.raises(Exception) as denied:
        await asyncio.wait_for(anna.start(), 10)
    said.append(str(denied.value))
    said += [record.getMessage() + str(record.args) for record in caplog.records]
    assert len(said) > 8
    assert not [each for each in said if TOKEN in each or TOKEN.partition(":")[2] in each]


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"token": "abc"}, "BotFather"),
        ({"token": TOKEN, "api": "ftp://x"}, "api should"),
        ({"token": TOKEN, "api": "https://u:p@x"}, "user name"),
        ({"token": TOKEN, "poll": 51.0}, "at most 50"),
        ({"token": TOKEN, "timeout": 0.0}, "timeout"),
        ({"token": TOKEN, "pace": -1.0}, "pace"),
    ],
)
def test_a_wrong_setting_says_what_would_be_right(told: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why) as no:
        TelegramSettings(**told)
    assert TOKEN not in str(no.value)


def test_the_kind_is_found_by_its_name() -> None:
    channel = make(ChannelSettings(name="tg", kind="telegram", options={"token": TOKEN}))
    assert isinstance(channel, TelegramChannel)
    assert repr(channel) == "<TelegramChannel tg at api.telegram.org>"


def test_a_double_made_by_hand_has_the_settings_token() -> None:
    assert TelegramSettings(TelegramDouble().token).token == TOKEN
