"""What is heard from Telegram: everything once, in order, and nothing confirmed before it is committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from telegram_house import ANNA, FORUM, GROUP, TelegramHouse, telegram

from semel.channels.telegram.address import ChatPlace, TelegramCursor, parse_address
from semel.channels.telegram.parse import parse_update as heard
from semel.channels.telegram.parse_entities import BotIdentity, read_text
from semel.gateway.ports import Kept, Missing, Person
from semel.testing.telegram.text import count_utf16_units, detect_entities

BEN = 8
US = BotIdentity(8000000001, "test_semel_bot")


@pytest.fixture
async def group(there: TelegramHouse) -> TelegramHouse:
    there.double.group(GROUP, "House")
    there.double.group(FORUM, "Forum", forum=True, status="administrator")
    there.double.person(BEN, "Ben", "ben")
    return there


# ---------------------------------------------------------------- what people write


async def test_a_message_is_heard_with_who_where_and_when(there: TelegramHouse) -> None:
    await there.online()
    id = there.double.write(ANNA, "hello")
    [what] = await there.hear(1)
    assert (what.kind, what.key, what.address, what.text) == ("message", f"{ANNA}/{id}", str(ANNA), "hello")
    assert what.sender == Person(str(ANNA), "Anna Arendt")
    assert (what.group, what.mentioned, what.of, what.title, what.data) == (False, False, None, "", {"chat": "private"})
    assert abs(what.at - there.double.now()) < 5


async def test_start_only_opens_a_conversation_and_is_a_message_elsewhere(group: TelegramHouse) -> None:
    await group.online()
    for text in ("/start", "/start invited-by_ben", "/start now, please", "start"):
        group.double.write(ANNA, text)
    group.double.write(GROUP, "/start@test_semel_bot", sender=ANNA)
    assert [each.opens for each in await group.hear(5)] == [True, True, False, False, False]


async def test_an_edit_is_a_version_of_its_message(there: TelegramHouse) -> None:
    await there.online()
    id = there.double.write(ANNA, "helo")
    there.double.edit(ANNA, id, "hello")
    there.double.edit(ANNA, id, "hello!")  # in the same second
    first, one, two = await there.hear(3)
    assert [(each.kind, each.of, each.text) for each in (one, two)] == [
        ("edit", first.key, "hello"),
        ("edit", first.key, "hello!"),
    ]
    assert len({first.key, one.key, two.key}) == 3


async def test_an_edit_that_is_told_twice_is_the_same(there: TelegramHouse) -> None:
    update = {"update_id": 5, "edited_message": {**_message("x"), "edit_date": 1750000009}}
    again = {**update, "update_id": 6}
    assert [d.incoming.key for d in heard(update, US, {})] == [d.incoming.key for d in heard(again, US, {})]  # type: ignore[union-attr]


async def test_reactions_come_and_go(there: TelegramHouse) -> None:
    await there.online()
    id = there.double.write(ANNA, "hello")
    for emoji in ("👍", "🔥", None):
        there.double.react(ANNA, id, emoji)
    events = (await there.hear(5))[1:]
    assert [(each.text, each.removed, each.of) for each in events] == [
        ("👍", False, f"{ANNA}/{id}"),
        ("👍", True, f"{ANNA}/{id}"),
        ("🔥", False, f"{ANNA}/{id}"),
        ("🔥", True, f"{ANNA}/{id}"),
    ]
    assert len({each.key for each in events}) == 4
    assert {each.sender for each in events} == {Person(str(ANNA), "Anna Arendt")}


async def test_a_reply_refers_and_tells_what_it_replies_to(there: TelegramHouse) -> None:
    await there.online()
    receipt = await there.channel.send(there.op("shall I?", to=str(ANNA))) if there.double.write(ANNA, "a") else None
    assert receipt is not None
    there.double.write(ANNA, "yes", reply_to=int(receipt.id.partition("/")[2]))
    what = (await there.hear(2))[1]
    assert (what.of, what.mentioned) == (receipt.id, True)
    assert what.data["replied"] == {"from": "Semel", "text": "shall I?"}


@pytest.mark.parametrize(
    ("body", "text", "data"),
    [
        ({"sticker": {"emoji": "😀", "file_id": "x"}}, "[sticker 😀]", {}),
        ({"location": {"latitude": 52.5, "longitude": 13.25}}, "[location: 52.5, 13.25]", {}),
        ({"contact": {"first_name": "Eva", "phone_number": "+49 1"}}, "[contact: Eva, +49 1]", {}),
        ({"poll": {"question": "Where?", "options": [{"text": "here"}, {"text": "there"}]}},
         "[poll: Where?]\n- here\n- there", {}),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[🎲 4]", {}),
        ({"venue": {"title": "Zoo", "address": "A 1", "location": {"latitude": 1, "longitude": 2}},
          "location": {"latitude": 1, "longitude": 2}}, "[venue: Zoo, A 1, 1, 2]", {}),
        ({"checklist": {"title": "Buy", "tasks": [{"text": "milk", "completion_date": 1}, {"text": "tea"}]}},
         "[checklist: Buy]\n- [x] milk\n- [ ] tea", {}),
        ({"rich_message": {"blocks": [{"type": "heading", "text": "One"}, {"type": "paragraph",
          "text": ["two ", {"type": "bold", "text": "three"}]}]}}, "One\ntwo three", {}),
        ({"hologram": {"x": 1}}, "[hologram]", {}),
        ({"text": "x", "forward_origin": {"type": "user", "sender_user": {"id": 3, "first_name": "Eva"}}},
         "x", {"forwarded": "Eva"}),
        ({"text": "x", "forward_origin": {"type": "channel", "chat": {"id": -3, "title": "News"}}},
         "x", {"forwarded": "News"}),
        ({"text": "x", "external_reply": {"origin": {"sender_user_name": "Eve"}}, "quote": {"text": "q"}},
         "x", {"replied": {"from": "Eve", "text": "q"}}),
        ({"text": "x", "via_bot": {"id": 5, "username": "gif"}}, "x", {"via": "gif"}),
        ({"text": "half \ud800 pair"}, "half \ufffd pair", {}),
    ],
)  # fmt: skip
async def test_whatever_is_sent_can_be_read(
    there: TelegramHouse, body: dict[str, Any], text: str, data: dict[str, Any]
) -> None:
    await there.online()
    there.double.post(ANNA, body)
    [what] = await there.hear(1)
    assert (what.kind, what.text) == ("message", text)
    assert {**what.data} == {"chat": "private", **data}


@pytest.mark.parametrize(
    ("text", "entities", "read_as"),
    [
        ("run x() now", [("code", "x()")], "run `x()` now"),
        ("a`b", [("code", "a`b")], "``a`b``"),
        ("see\nx = 1\nok", [("pre", "x = 1")], "see\n```python\nx = 1\n```\nok"),
        ("see x = 1 ok", [("pre", "x = 1")], "see \n```python\nx = 1\n```\n ok"),
        ("look 😀 here", [("text_link", "here")], "look 😀 [here](https://a.b)"),
        ("yes no", [("strikethrough", "yes"), ("bold", "no")], "~~yes~~ no"),
        ("both", [("strikethrough", "both"), ("text_link", "both")], "~~[both](https://a.b)~~"),
    ],
)
def test_entities_that_mean_something_are_read_as_markdown(
    text: str, entities: list[tuple[str, str]], read_as: str
) -> None:
    more = {"pre": {"language": "python"}, "text_link": {"url": "https://a.b"}}
    marks = [
        {
            "type": kind,
            "offset": count_utf16_units(text[: text.index(part)]),
            "length": count_utf16_units(part),
            **more.get(kind, {}),
        }
        for kind, part in entities
    ]
    assert read_text(text, marks, US) == (read_as, False)


def test_entities_outside_of_the_text_do_no_harm() -> None:
    marks = [{"type": "code", "offset": offset, "length": length} for offset, length in ((9, 9), (-1, 2), (0, 0))]
    assert read_text("abc", marks, US) == ("abc", False)


# ---------------------------------------------------------------- groups


@pytest.mark.parametrize(
    ("written", "heard_as", "mentioned"),
    [
        ("@test_semel_bot hello", "hello", True),
        ("@Test_Semel_Bot, hello", "hello", True),
        ("  @test_semel_bot: hello", "hello", True),
        ("hello @test_semel_bot", "hello @test_semel_bot", True),
        ("@test_semel_bot", "@test_semel_bot", True),
        ("@other_bot hello", "@other_bot hello", False),
        ("hello @test_semel_bot2", "hello @test_semel_bot2", False),
        ("/new@test_semel_bot", "/new", True),
        ("/status@test_semel_bot", "/status", True),
        ("/new@test_semel_bot now", "/new now", True),
        ("/new", "/new", False),
        ("@test_semel_bot /new@test_semel_bot x", "/new x", True),
        ("/new@other_bot", "/new@other_bot", False),
        ("hello", "hello", False),
        ("😀 @test_semel_bot 😀", "😀 @test_semel_bot 😀", True),
    ],
)
def test_a_mention_at_the_beginning_and_the_name_behind_a_command_are_taken_away(
    written: str, heard_as: str, mentioned: bool
) -> None:
    assert read_text(written, detect_entities(written), US) == (heard_as, mentioned)


def test_a_person_without_a_username_is_mentioned_by_an_entity() -> None:
    mark = {"type": "text_mention", "offset": 0, "length": 5, "user": {"id": US.id}}
    assert read_text("Semel hello", [mark], US) == ("hello", True)
    assert read_text("Semel hello", [{**mark, "user": {"id": 9}}], US) == ("Semel hello", False)


async def test_in_a_group_a_command_that_names_nobody_is_a_message_also_for_an_administrator(
    group: TelegramHouse,
) -> None:
    group.double.member(GROUP, "administrator")
    await group.online()
    group.double.write(GROUP, "/new", sender=BEN)
    group.double.write(GROUP, "/new@test_semel_bot", sender=BEN)
    ours = await group.channel.send(group.op("yes?", to=str(GROUP)))
    group.double.write(GROUP, "/new", sender=BEN, reply_to=int(ours.id.partition("/")[2]))
    heard = await group.hear(3)
    assert [(what.text, what.mentioned) for what in heard] == [("/new", False), ("/new", True), ("/new", True)]


async def test_in_a_group_the_mention_counts(group: TelegramHouse) -> None:
    group.double.privacy = False
    await group.online()
    group.double.write(GROUP, "just talk", sender=BEN)
    group.double.write(GROUP, "@test_semel_bot you?", sender=BEN)
    talk, asked = await group.hear(2)
    assert [(each.text, each.group, each.mentioned, each.title) for each in (talk, asked)] == [
        ("just talk", True, False, "House"),
        ("you?", True, True, "House"),
    ]
    assert talk.sender == Person(str(BEN), "Ben")


async def test_a_caption_mentions_too(group: TelegramHouse) -> None:
    await group.online()
    group.double.send_file(GROUP, b"x", name="a.txt", caption="@test_semel_bot see", sender=BEN)
    [what] = await group.hear(1)
    assert (what.text, what.mentioned) == ("see", True)


async def test_a_topic_is_a_place_of_its_own_and_what_stands_at_its_head_is_no_reply(group: TelegramHouse) -> None:
    topic = group.double.topic(FORUM, "Garden")
    await group.online()
    group.double.write(FORUM, "in it", sender=BEN, topic=topic)
    group.double.write(FORUM, "outside", sender=BEN)
    inside, outside = await group.hear(2)
    assert (inside.address, inside.of, inside.title) == (f"{FORUM}:topic-{topic}", None, "Forum: Garden")
    assert not inside.mentioned
    assert (outside.address, outside.title) == (str(FORUM), "Forum")


async def test_a_reaction_belongs_to_the_topic_of_its_message(group: TelegramHouse) -> None:
    topic = group.double.topic(FORUM, "Garden")
    await group.online()
    theirs = group.double.write(FORUM, "in it", sender=BEN, topic=topic)
    receipt = await group.channel.send(group.op("answer", to=f"{FORUM}:topic-{topic}"))
    for id in (theirs, int(receipt.id.partition("/")[2])):
        group.double.react(FORUM, id, "👍", sender=BEN)
    group.double.react(FORUM, group.double.write(FORUM, "outside", sender=BEN), "👍", sender=BEN)
    events = await group.hear(5)
    assert [each.address for each in events if each.kind == "reaction"] == [
        f"{FORUM}:topic-{topic}",
        f"{FORUM}:topic-{topic}",
        str(FORUM),
    ]


def test_a_reply_in_a_group_without_topics_stays_in_the_group() -> None:
    told = {**_message("x"), "message_thread_id": 4, "reply_to_message": _message("y")}
    [draft] = heard({"update_id": 1, "message": told}, US, {})
    assert draft.incoming.address == str(ANNA)  # type: ignore[union-attr]


def test_who_speaks_as_a_group_or_a_channel_is_that() -> None:
    chat = {"id": GROUP, "type": "supergroup", "title": "House"}
    anonymous = {**_message("x"), "chat": chat, "sender_chat": chat, "from": {"id": 1087968824, "is_bot": True,
                 "first_name": "Group"}, "author_signature": "boss"}  # fmt: skip
    [one] = heard({"update_id": 1, "message": anonymous}, US, {})
    assert one.incoming.sender == Person(str(GROUP), "House boss", bot=False)  # type: ignore[union-attr]
    forwarded = {**anonymous, "from": {"id": 777000, "is_bot": False, "first_name": "Telegram"}}
    [two] = heard({"update_id": 1, "message": forwarded}, US, {})
    assert two.incoming.sender is not None and two.incoming.sender.bot  # type: ignore[union-attr]


def test_a_bot_is_one() -> None:
    told = {**_message("x"), "from": {"id": 99, "is_bot": True, "first_name": "Other"}}
    [draft] = heard({"update_id": 1, "message": told}, US, {})
    assert draft.incoming.sender == Person("99", "Other", bot=True)  # type: ignore[union-attr]


async def test_a_post_of_a_channel_is_heard(there: TelegramHouse) -> None:
    there.double.group(-1001000000900, "News", type="channel", status="administrator")
    await there.online()
    post = there.double.write(-1001000000900, "today")
    [what] = await there.hear(1)
    assert (what.text, what.group, what.sender) == ("today", True, Person("-1001000000900", "News"))
    there.double.edit(-1001000000900, post, "tomorrow")
    edit = (await there.hear(2))[1]
    assert (edit.kind, edit.text, edit.of) == ("edit", "tomorrow", what.key)


async def test_what_nobody_said_is_not_heard(group: TelegramHouse) -> None:
    await group.online()
    group.double.join(GROUP, BEN)
    group.double.member(GROUP, "administrator")
    group.double.block(ANNA)
    group.double.block(ANNA, False)
    group.double.topic(FORUM, "x")
    live = {**_message(""), "location": {"latitude": 1, "longitude": 2}, "edit_date": 1750000001}
    group.double.update("edited_message", live)
    group.double.write(ANNA, "now")
    assert [each.text for each in await group.hear(1)] == ["now"]
    await group.hear(1)


async def test_an_album_is_several_messages_of_one_album(there: TelegramHouse) -> None:
    await there.online()
    for n in range(3):
        there.double.send_file(
            ANNA, b"\xff\xd8\xff%d" % n, kind="photo", name="x.jpg", mime="image/jpeg", extra={"media_group_id": "77"}
        )
    events = await there.hear(3)
    assert {each.data["album"] for each in events} == {"77"}
    assert len({each.files[0].id for each in events}) == 3


# ---------------------------------------------------------------- files


async def test_a_file_is_kept_before_its_message_is_heard(there: TelegramHouse) -> None:
    await there.online()
    content = bytes(range(256)) * 500
    there.double.send_file(ANNA, content, name="ü.bin", mime="application/x-y", caption="see")
    [what] = await there.hear(1)
    [kept] = what.files
    assert kept == Kept(kept.id, len(content), "ü.bin", "application/x-y")
    assert (there.tmp_path / "files" / kept.id).read_bytes() == content
    assert what.text == "see"


@pytest.mark.parametrize("kind", ["photo", "voice", "audio", "video", "video_note", "animation"])
async def test_every_kind_of_file_is_kept(there: TelegramHouse, kind: str) -> None:
    await there.online()
    extra = {"document": {"file_id": "file-1", "file_unique_id": "u"}} if kind == "animation" else None
    there.double.send_file(ANNA, b"content", kind=kind, name="x.y", mime="a/b", extra=extra)
    [what] = await there.hear(1)
    [kept] = what.files
    assert isinstance(kept, Kept) and kept.size == 7 and what.text == ""


async def test_a_file_that_is_too_large_is_missing_and_its_message_is_not(there: TelegramHouse) -> None:
    await there.online()
    there.double.send_file(ANNA, size=20_000_001, name="big.bin", caption="see")
    [what] = await there.hear(1)
    assert what.text == "see"
    assert what.files == (Missing("big.bin", "it is larger than the 20 MB that Telegram gives to bots"),)


async def test_files_of_strangers_are_not_fetched(there: TelegramHouse) -> None:
    there.inbox.strangers.add(str(ANNA))
    await there.online()
    there.double.send_file(ANNA, b"x", name="a.bin")
    [what] = await there.hear(1)
    assert isinstance(what.files[0], Missing) and "not known" in what.files[0].why
    assert there.double.asked("getFile") == []


async def test_files_are_fetched_only_where_that_is_wanted(tmp_path: Path) -> None:
    async with telegram(tmp_path, fetch=False) as house:
        await house.online()
        house.double.send_file(ANNA, b"x", name="a.bin")
        [what] = await house.hear(1)
        assert isinstance(what.files[0], Missing) and "fetch" in what.files[0].why


async def test_what_has_no_file_does_not_wait_for_what_has(there: TelegramHouse) -> None:
    there.double.fail("file", "hang")
    there.double.write(ANNA, "first")
    there.double.send_file(ANNA, b"x", name="a.bin")
    there.start()
    assert [each.text for each in await there.hear(1)] == ["first"]
    assert TelegramCursor.load(there.inbox.at or "").offset == there.double.pending()[1]["update_id"]


# ---------------------------------------------------------------- what cannot be read


async def test_an_odd_update_is_kept_as_it_came_and_does_not_stop_the_rest(there: TelegramHouse) -> None:
    await there.online()
    there.double.update("message", {"message_id": "?", "chat": []})  # type: ignore[dict-item]
    there.double.queue.allowed = [*there.double.queue.allowed, "telepathy", "callback_query"]
    there.double.update("telepathy", {"thought": 1})
    there.double.update("callback_query", {"id": "1"})
    there.double.write(ANNA, "after")
    odd, unknown, after = await there.hear(3)
    assert (odd.kind, unknown.kind, after.text) == ("unreadable", "unreadable", "after")
    assert b'"message_id": "?"' in odd.raw and b"telepathy" in unknown.raw
    assert "telepathy" in unknown.why
    assert odd.key != unknown.key


async def test_an_update_that_is_no_json_is_kept_and_the_rest_is_heard(
    there: TelegramHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.testing.telegram import server

    broken = there.double.write(ANNA, "BROKEN")
    there.double.write(ANNA, "after")
    whole = server._json_answer

    def torn(status: int, body: Any) -> Any:
        answer = whole(status, body)
        return replace(answer, body=answer.body.replace(b'"BROKEN"', b'"BROKEN'))

    monkeypatch.setattr(server, "_json_answer", torn)
    there.start()
    bad, after = await there.hear(2)
    assert (bad.kind, after.text) == ("unreadable", "after")
    assert b"BROKEN" in bad.raw and broken


def _message(text: str) -> dict[str, Any]:
    return {
        "message_id": 3,
        "date": 1750000000,
        "chat": {"id": ANNA, "type": "private"},
        "from": {"id": ANNA, "is_bot": False, "first_name": "Anna"},
        "text": text,
    }


# ---------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("address", "there"),
    [
        ("7", ChatPlace(7)),
        ("-100", ChatPlace(-100)),
        ("-100:topic-5", ChatPlace(-100, 5)),
        ("-100:topic-1", ChatPlace(-100)),
    ],
)
def test_an_address_is_a_chat_or_a_topic(address: str, there: ChatPlace) -> None:
    assert parse_address(address) == there


@pytest.mark.parametrize("address", ["", "x", "7:", "7:topic-", "7:topic-x", "--7", "@anna", "7:topic-1:2", "٣"])
def test_anything_else_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="not a Telegram address"):
        parse_address(address)


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"offset": "a", "moved": {}}', "null", "true"])
def test_a_cursor_that_cannot_be_read_is_the_beginning(text: str) -> None:
    assert TelegramCursor.load(text) == TelegramCursor(0)


def test_a_cursor_is_read_as_it_was_written() -> None:
    for cursor in (
        TelegramCursor(5),
        TelegramCursor(9, {-1: -100, -2: -200}),
        TelegramCursor(5, {}, 77),
        TelegramCursor(5, {-1: -100}, 77),
    ):
        assert TelegramCursor.load(cursor.dump()) == cursor
