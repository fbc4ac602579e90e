"""What leaves for Discord: one request for each attempt, and what its answer means."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from discord_house import ANN, BOB, DiscordHouse, discord

from semel.channels import ChannelError, make
from semel.channels.discord.receipts import TOKEN_REFUSED
from semel.channels.discord.receive import check_gateway
from semel.channels.discord.settings import DEFAULT_API, DiscordSettings
from semel.faces.channel_check import TEST_MESSAGE, send_test_message
from semel.gateway.ports import Answers, Denied, NotSent, Offline, Op, Receipt, Rejected, Safety, Unknown
from semel.gateway.settings import ChannelSettings
from semel.testing.discord import BOT, TOKEN, DiscordDouble

POST = "POST /channels/*/messages"
LONG = "A text that is long enough to be told from every other one by its words."


# ---------------------------------------------------------------- messages


async def test_a_text_arrives_once_and_its_receipt_names_channel_and_message(there: DiscordHouse) -> None:
    op = there.op("Hello **you** 😀")
    receipt = await there.channel.send(op)
    [shown] = there.double.shown(there.room)
    assert receipt == Receipt(f"{there.room}/{shown['id']}")
    assert shown["content"] == "Hello **you** 😀" and shown["flags"] == 4  # no previews of links
    assert await there.channel.send(op) == receipt
    assert there.double.texts(there.room) == ["Hello **you** 😀"]


async def test_the_longest_part_fits_whatever_is_in_it(there: DiscordHouse) -> None:
    most = there.channel.caps.max_len or 0
    for text in ("😀" * (most // 2), "*_~`|\\" * (most // 6), "x" * most):
        await there.channel.send(there.op(text, marked=True))
    assert all(text.startswith("(repeat) ") for text in there.double.texts(there.room))
    with pytest.raises(Rejected, match="longer than the 2000"):
        await there.channel.send(there.op("x" * 2001))
    assert len(there.double.texts(there.room)) == 3


async def test_nobody_is_pinged_by_what_an_agent_says(there: DiscordHouse) -> None:
    question = there.double.write(there.room, ANN, "who?")
    answers = Answers(f"{there.room}/{question}", ANN, {"group": True})
    await there.channel.send(there.op(f"@everyone <@{BOB}> <@&123>", answers=answers))
    assert there.double.pinged == []
    assert there.double.texts(there.room) == [f"@everyone \\<@{BOB}> \\<@&123>"]


async def test_the_first_part_of_an_answer_in_a_server_is_a_reply(there: DiscordHouse) -> None:
    question = there.double.write(there.room, ANN, "who?")
    answers = Answers(f"{there.room}/{question}", ANN, {"group": True})
    for n in (0, 1):
        await there.channel.send(there.op(f"part {n}", answers=answers, n=n))
    there.double.delete(there.room, question)
    await there.channel.send(there.op("too late", answers=answers))
    await there.channel.send(there.op("alone", to=there.direct, answers=Answers(f"{there.direct}/5", ANN, {})))
    replies = [body.get("message_reference", {}).get("message_id") for body in there.double.shown(there.room)]
    assert replies == [question, None, None]
    assert "message_reference" not in there.double.shown(there.direct)[0]


async def test_edits_reactions_and_deletions_may_be_repeated(there: DiscordHouse) -> None:
    receipt = await there.channel.send(there.op("first"))
    for kind, text in (("edit", "second"), ("react", "👍"), ("delete", "")):
        for _ in range(2):
            assert await there.channel.send(there.op(text, kind=kind, target=receipt.id)) == receipt
    assert there.double.texts(there.room) == []
    with pytest.raises(Rejected, match="Unknown Message"):
        await there.channel.send(there.op("third", kind="edit", target=receipt.id))


async def test_a_reaction_that_discord_does_not_know_is_refused(there: DiscordHouse) -> None:
    id = there.double.write(there.room, ANN, "hello")
    with pytest.raises(Rejected, match="Unknown Emoji"):
        await there.channel.send(there.op("thumbs", kind="react", target=f"{there.room}/{id}"))
    await there.channel.send(there.op("<:rose:123456789012345678>", kind="react", target=f"{there.room}/{id}"))


async def test_a_file_leaves_once_with_its_text(there: DiscordHouse) -> None:
    path = there.file(b"milk", "list")
    op = there.op("**shopping**", kind="file", file=path, name="a list.txt", mime="text/plain")
    receipt = await there.channel.send(op)
    assert await there.channel.send(op) == receipt
    [shown] = there.double.shown(there.room)
    assert shown["content"] == "**shopping**"
    assert [(one["filename"], one["size"]) for one in shown["attachments"]] == [("a_list.txt", 4)]
    await there.channel.send(there.op("", kind="file", file=path, name="b.txt"))
    path.unlink()
    with pytest.raises(Rejected, match="cannot be read"):
        await there.channel.send(there.op("", kind="file", file=path, name="b.txt"))


async def test_a_person_is_written_to_by_their_id(there: DiscordHouse) -> None:
    await there.channel.send(there.op("hello", to=f"@{ANN}"))
    await there.channel.send(there.op("again", to=f"@{ANN}"))
    assert there.double.texts(there.direct) == ["hello", "again"]
    assert len(there.double.asked("POST /users/@me/channels")) == 1
    there.double.closed_to_us.add(ANN)
    with pytest.raises(Rejected, match="takes no direct messages"):
        await there.channel.send(there.op("hello?", to=f"@{ANN}"))


async def test_typing_is_shown_in_the_thread(there: DiscordHouse) -> None:
    thread = there.double.thread(there.room)
    await there.channel.typing(f"{there.room}:thread-{thread}")
    assert there.double.typed == [thread]


@pytest.mark.parametrize("address", ["general", "../users/@me", "12/34", "", "@ann"])
async def test_an_address_that_is_none_is_refused_without_a_request(there: DiscordHouse, address: str) -> None:
    with pytest.raises(Rejected, match="is not a Discord address"):
        await there.channel.send(Op("k", "post", address, "x"))
    assert there.double.requests == []


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("how", "more", "error", "words"),
    [
        ("drop", {"after": True}, Unknown, "disconnected"),
        ("500", {"after": True}, Unknown, "HTTP 500"),
        ("502", {}, Unknown, "not an answer of Discord"),
        ("401", {}, NotSent, "does not accept this bot's token"),
        ("403", {"code": 50013}, Rejected, "give the bot's role Send Messages"),
        ("403", {"code": 50278}, Rejected, "none of the bot's servers"),
        ("400", {}, Rejected, "Invalid Form Body"),
    ],
)
async def test_what_an_answer_means(there: DiscordHouse, how: Any, more: Any, error: Any, words: str) -> None:
    there.double.fail(POST, how, **more)
    with pytest.raises(error, match=words):
        await there.channel.send(there.op("x"))


async def test_a_lost_answer_is_made_up_for_by_the_same_nonce(there: DiscordHouse) -> None:
    op = there.op("once")
    there.double.fail(POST, "cut", after=True)
    with pytest.raises(Unknown):
        await there.channel.send(op)
    await there.channel.send(op)
    assert there.double.texts(there.room) == ["once"]


async def test_a_limit_is_waited_for_before_it_is_reached(tmp_path: Path) -> None:
    async with discord(tmp_path, DiscordDouble(rate=(2, 0.5))) as house:
        begun = time.monotonic()
        for n in range(4):
            await house.channel.send(house.op(str(n)))
        assert 0.3 < time.monotonic() - begun < 10
        assert [row["status"] for row in house.double.asked("/messages")] == [200] * 4


async def test_what_is_put_off_waits_as_long_as_discord_says_and_others_only_if_all_must(there: DiscordHouse) -> None:
    other = there.double.channel(there.guild, "tulips")
    for scope, others_leave in (("user", True), ("global", False)):
        there.double.fail(POST, "429", retry_after=30, scope=scope)
        with pytest.raises(NotSent) as put_off:
            await there.channel.send(there.op("x"))
        assert put_off.value.retry_after == 30
        asked = len(there.double.requests)
        with pytest.raises(NotSent, match="rate limit") as again:
            await there.channel.send(there.op("x"))
        assert 25 < (again.value.retry_after or 0) <= 30 and len(there.double.requests) == asked
        try:
            await there.channel.send(there.op("y", to=other))
            left = True
        except NotSent:
            left = False
        assert left is others_leave
        there.channel = there.fresh()


async def test_after_many_refusals_nothing_leaves_for_a_while(
    there: DiscordHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Discord bans an address after 10,000 of them in ten minutes."""
    monkeypatch.setattr("semel.channels.discord.rate_limits.MAX_INVALID", 3)
    there.double.fail(POST, "403", times=None)
    for _ in range(3):
        with pytest.raises(Rejected):
            await there.channel.send(there.op("x"))
    with pytest.raises(NotSent, match="rate limit"):
        await there.channel.send(there.op("x"))
    assert len(there.double.asked("/messages")) == 3


async def test_the_token_stands_in_no_error_no_log_and_no_repr(
    hearing: DiscordHouse, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "semel"):
        hearing.double.fail("*", "500", times=3)
        with pytest.raises(Unknown) as error:
            await hearing.channel.send(hearing.op("x"))
        hearing.double.command(hearing.room, ANN, "status")
        await hearing.hear(1)
    channel, inbox = hearing.channel, hearing.inbox
    told = f"{error.value} {caplog.text} {channel!r} {channel.settings!r} {inbox.at} {inbox.events}"
    assert TOKEN not in told and "token-" not in told


# ---------------------------------------------------------------- look-ups


async def lose_answer(house: DiscordHouse, text: str, arrives: bool = True) -> Any:
    """Send a text whose answer is lost. Returns its op."""
    house.double.fail(POST, "drop", after=arrives)
    op = house.op(text, at=time.time())
    with pytest.raises(Unknown):
        await house.channel.send(op)
    return op


async def test_our_own_message_is_known_by_its_nonce_however_short(hearing: DiscordHouse) -> None:
    await hearing.channel.send(hearing.op("ok"))
    op = await lose_answer(hearing, "ok")
    lost = await lose_answer(hearing, "ok", arrives=False)
    await hearing.hear(2)
    newest = hearing.double.shown(hearing.room)[-1]["id"]
    assert await hearing.channel.find(op, time.time() - 60) == Receipt(f"{hearing.room}/{newest}")
    assert await hearing.channel.find(lost, time.time() - 60) is None


async def test_a_nonce_is_known_to_the_next_process_too(hearing: DiscordHouse) -> None:
    op = await lose_answer(hearing, "ok")
    await hearing.stop()
    other = hearing.op("ok", at=time.time())
    await hearing.restart()
    assert await hearing.channel.find(op, time.time() - 60) is not None
    assert await hearing.channel.find(other, time.time() - 60) is None


async def test_without_its_nonce_a_long_text_is_found_and_a_short_or_double_one_is_for_people(
    there: DiscordHouse,
) -> None:
    """Nobody hears: the events with the nonces are missed."""
    found, short, absent = await lose_answer(there, LONG), await lose_answer(there, "ok"), there.op("elsewhere")
    await there.restart()
    [message, _] = there.double.shown(there.room)
    assert await there.channel.find(found, time.time() - 60) == Receipt(f"{there.room}/{message['id']}")
    assert await there.channel.find(absent, time.time() - 60) is None
    with pytest.raises(Rejected, match="the same text"):
        await there.channel.find(short, time.time() - 60)
    await there.stop()
    await lose_answer(there, LONG)
    there.double.sessions.invalidate()
    await there.restart()
    with pytest.raises(Rejected, match="the same text"):
        await there.channel.find(found, time.time() - 60)


async def test_an_equal_text_from_before_it_was_said_is_not_it(there: DiscordHouse) -> None:
    await there.channel.send(there.op(LONG))
    await there.restart()
    op = there.op(LONG, at=time.time() + 30)
    assert await there.channel.find(op, time.time() - 60) is None


async def test_a_file_is_found_by_its_size(there: DiscordHouse) -> None:
    op = there.op("", kind="file", file=there.file(b"milk", "a"), name="a.txt", at=time.time())
    there.double.fail(POST, "drop", after=True)
    with pytest.raises(Unknown):
        await there.channel.send(op)
    await there.restart()
    assert await there.channel.find(op, time.time() - 60) is not None
    other = there.op("", kind="file", file=there.file(b"cream", "b"), name="a.txt", at=time.time())
    assert await there.channel.find(other, time.time() - 60) is None


async def test_a_thread_that_was_never_opened_holds_nothing(there: DiscordHouse) -> None:
    await there.online()
    op = there.op(LONG, to=f"{there.room}:thread-123456789012345678", at=time.time())
    assert await there.channel.find(op, time.time() - 60) is None


async def test_another_bot_cannot_say_what_ours_has_sent(hearing: DiscordHouse) -> None:
    op = await lose_answer(hearing, LONG)
    await hearing.stop()
    hearing.double.me.id = "1100000000000000002"
    hearing.channel = hearing.fresh()
    with pytest.raises(Unknown, match="not been connected"):
        await hearing.channel.find(op, time.time() - 60)
    with pytest.raises(Denied):
        await hearing.online()
    with pytest.raises(Unknown, match="belongs to another bot"):
        await hearing.channel.find(op, time.time() - 60)


async def test_a_history_that_is_not_shown_proves_nothing(there: DiscordHouse) -> None:
    """Without Read Message History, Discord lists no messages, and says no word of it."""
    op = await lose_answer(there, "ok")
    await there.restart()
    there.double.channels[there.room].shows_history = False
    with pytest.raises(Unknown, match="Read Message History"):
        await there.channel.find(op, time.time() - 60)
    for empty in (there.direct, there.double.channel(there.guild, "empty")):
        assert await there.channel.find(there.op("ok", to=empty, at=time.time()), time.time() - 60) is None


async def test_a_test_message_is_read_back_where_the_bot_may_read(there: DiscordHouse) -> None:
    there.channel.caps = replace(there.channel.caps, settle=0.0)
    sent = await send_test_message(there.channel, there.room)
    assert (sent.was_read_back, sent.problem) == (True, "") and there.double.texts(there.room) == [TEST_MESSAGE]
    there.double.channels[there.room].shows_history = False
    unseen = await send_test_message(there.channel, there.room)
    assert unseen.receipt and not unseen.was_read_back and "Read Message History" in unseen.problem


async def test_who_may_not_look_proves_nothing(there: DiscordHouse) -> None:
    op = await lose_answer(there, LONG)
    await there.online()
    there.double.channels[there.room].hidden = True
    with pytest.raises(Unknown, match="Missing Access"):
        await there.channel.find(op, time.time() - 60)


# ---------------------------------------------------------------- settings


def test_what_the_channel_can_do() -> None:
    channel = make(ChannelSettings(name="dc", kind="discord", stream=True, options={"token": TOKEN}))
    caps = channel.caps
    assert (caps.safety, caps.key_life, caps.finds, caps.file_limit) == (Safety.IDEMPOTENT, 120.0, True, 10_485_760)
    assert caps.edits and caps.deletes and caps.reactions and caps.files and caps.typing and caps.threads
    assert caps.account_refusals == (TOKEN_REFUSED,)


def test_without_its_library_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.channels.discord.find_spec", lambda name: None)
    with pytest.raises(ChannelError, match=r"discord needs one more package: .*websockets"):
        make(ChannelSettings(name="dc", kind="discord", options={"token": TOKEN}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"token": "abc"}, "Reset Token"),
        ({"api": "discord.com"}, "api should begin with"),
        ({"gateway": "https://x"}, "gateway should begin with wss://"),
        ({"threads": "some"}, 'threads should be "own", "room" or "open"'),
        ({"timeout": 0}, "timeout should be"),
        ({"pace": -1}, "pace should be"),
    ],
)
def test_a_wrong_setting_says_what_it_should_be(changes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DiscordSettings(**({"token": TOKEN} | changes))


def test_the_account_is_the_bot_whose_id_is_in_the_token() -> None:
    assert DiscordSettings(TOKEN).account == f"bot {BOT} at discord.com"
    assert TOKEN not in repr(DiscordSettings(TOKEN))


def test_a_gateway_that_is_not_encrypted_gets_no_token() -> None:
    check_gateway("wss://gateway.discord.gg", DEFAULT_API)
    check_gateway("ws://127.0.0.1:1", "http://127.0.0.1:2")
    with pytest.raises(Offline, match="wss://"):
        check_gateway("ws://gateway.discord.gg", DEFAULT_API)
