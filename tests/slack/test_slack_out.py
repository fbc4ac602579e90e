"""What goes to Slack: one request shows it, each answer means what Slack documents, and a lost one is looked up."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from slack_house import ANN, BOT, ROOM, SlackDouble, SlackHouse, slack

from semel.channels.slack.address import parse_address, to_number
from semel.channels.slack.parse import METADATA_TYPE
from semel.faces.channel_check import TEST_MESSAGE, send_test_message
from semel.gateway.ports import Answers, Button, NotSent, Receipt, Rejected, Unknown


async def test_a_message_is_a_markdown_block_with_a_text_for_notifications(there: SlackHouse) -> None:
    receipt = await there.channel.send(there.op("**bold** & [a](https://e.org)", key="k-1"))
    (asked,) = there.asked("chat.postMessage")
    assert json.loads(asked["blocks"]) == [{"type": "markdown", "text": "**bold** & [a](https://e.org)"}]
    assert asked["text"] == "*bold* &amp; <https://e.org|a>"
    assert json.loads(asked["metadata"]) == {"event_type": METADATA_TYPE, "event_payload": {"key": "k-1"}}
    ts = there.double.shown(there.direct)[-1]["ts"]
    assert receipt == Receipt(f"{there.direct}/{to_number(ts)}")


async def test_nobody_is_called_by_accident_and_a_person_can_be_mentioned(there: SlackHouse) -> None:
    await there.channel.send(there.op("<!channel> <!here> <!subteam^S1> and <@U7>, a < b"))
    (asked,) = there.asked("chat.postMessage")
    (block,) = json.loads(asked["blocks"])
    assert "<!" not in block["text"] and "!channel" in block["text"] and "<@U7>" in block["text"]
    assert asked["text"] == "&lt;!channel&gt; &lt;!here&gt; &lt;!subteam^S1&gt; and <@U7>, a &lt; b"


async def test_a_long_text_leaves_whole_in_parts_that_slack_takes(there: SlackHouse) -> None:
    caps = there.channel.caps
    assert caps.max_len is not None
    for char in ("x", "&", "é", "*", "\u202e"):
        for code in (None, "msg_blocks_too_long"):
            text, op = char * caps.max_len, there.op(char * caps.max_len, marked=True)
            if code is not None:
                there.double.fail("chat.postMessage", "error", code=code)
                with pytest.raises(NotSent):
                    await there.channel.send(op)
            await there.channel.send(op)
            message = there.double.shown(there.direct)[-1]
            shown = message["blocks"][0]["text"] if code is None else message["text"].replace("&amp;", "&")
            assert shown.removeprefix("(repeat) ") in (text, "\ufffd" * caps.max_len)


async def test_blocks_that_slack_refuses_go_without_at_the_next_attempt(there: SlackHouse) -> None:
    there.double.fail("chat.postMessage", "error", code="invalid_blocks")
    op = there.op("# Title")
    with pytest.raises(NotSent) as again:
        await there.channel.send(op)
    assert again.value.retry_after == 0
    await there.channel.send(op)
    (message,) = there.double.shown(there.direct)
    assert message["text"] == "*Title*" and "blocks" not in message
    there.double.fail("chat.postMessage", "error", code="invalid_blocks")
    with pytest.raises(Rejected):
        await there.channel.send(op)


async def test_a_thread_a_channel_and_a_person_are_addresses(there: SlackHouse) -> None:
    root = there.double.write(ROOM, ANN, "root")
    await there.channel.send(there.op("in the thread", to=f"{ROOM}:thread-{to_number(root)}"))
    await there.channel.send(there.op("to ann", to=ANN))
    await there.channel.send(there.op("to ann again", to=ANN))
    assert there.double.shown(ROOM)[-1]["thread_ts"] == root
    assert there.double.texts(there.direct) == ["to ann", "to ann again"]
    assert len(there.asked("conversations.open")) == 1


@pytest.mark.parametrize("address", ["", "general", "C1/../x", "U7:thread-1700000000000001", "C1:thread-", "E1"])
async def test_an_address_that_is_none_is_rejected_before_anything_is_asked(there: SlackHouse, address: str) -> None:
    op = there.op("x", to=address or "-")
    with pytest.raises(Rejected, match="is not a Slack channel"):
        await there.channel.send(op)
    assert there.double.requests == []
    with pytest.raises(ValueError, match="is not"):
        parse_address(address)


async def test_an_answer_to_a_message_in_a_thread_of_a_room_goes_into_that_thread(tmp_path: Path) -> None:
    async with slack(tmp_path, threads="room") as there:
        root = there.double.write(ROOM, ANN, "root")
        answers = Answers("C100/1", data={"channel": ROOM, "thread": root})
        await there.channel.send(there.op("there", to=ROOM, answers=answers))
        assert there.double.shown(ROOM)[-1]["thread_ts"] == root


async def test_buttons_stand_under_a_request_and_a_press_is_an_answer(there: SlackHouse) -> None:
    await there.online()
    buttons = (
        Button("Allow once", "/approve 3", "allow"),
        Button("x" * 90, "/approve 4"),
        Button("No", "/approve 5", "deny"),
    )
    receipt = await there.channel.send(there.op("May I?", key="k-9", buttons=buttons))
    message = there.double.shown(there.direct)[-1]
    elements = message["blocks"][1]["elements"]
    assert [each.get("style") for each in elements] == ["primary", None, "danger"]
    assert len(elements[1]["text"]["text"]) == 75
    there.double.press(there.direct, message["ts"], "Allow once", ANN)
    echo, press = await there.hear(2)
    assert (echo.kind, echo.key, echo.of) == ("echo", "k-9", receipt.id)
    assert (press.kind, press.text, press.of, press.sender.id) == ("message", "/approve 3", receipt.id, ANN)
    assert press.address == there.direct and press.mentioned
    there.double.post_again()
    await there.acknowledged()
    there.double.press(there.direct, message["ts"], "Allow once", ANN)
    third = (await there.hear(3))[-1]
    assert third.text == "/approve 3" and third.key != press.key


async def test_edits_deletions_and_reactions_can_be_repeated(there: SlackHouse) -> None:
    receipt = await there.channel.send(there.op("first"))
    for _ in range(2):
        await there.channel.send(there.op("second", kind="edit", target=receipt.id))
        await there.channel.send(there.op("👍🏽", kind="react", target=receipt.id))
        await there.channel.send(there.op(":party_parrot:", kind="react", target=receipt.id))
    (message,) = there.double.shown(there.direct)
    assert there.double.texts(there.direct) == ["second"]
    assert [each["name"] for each in message["reactions"]] == ["+1", "party_parrot"]
    for _ in range(2):
        await there.channel.send(there.op(kind="delete", target=receipt.id))
    assert there.double.shown(there.direct) == []
    with pytest.raises(Rejected, match="message_not_found"):
        await there.channel.send(there.op("third", kind="edit", target=receipt.id))
    with pytest.raises(Rejected, match="takes no"):
        await there.channel.send(there.op("not an emoji", kind="react", target=receipt.id))


@pytest.mark.parametrize("char", ["x", "&", "я", "字", "😀"])
async def test_a_long_text_fits_into_an_edit_whose_text_beside_its_blocks_holds_4000(
    there: SlackHouse, char: str
) -> None:
    """https://docs.slack.dev/reference/methods/chat.update, "Errors": msg_too_long"""
    receipt = await there.channel.send(there.op("first"))
    text = char * 7_000
    await there.channel.send(there.op(text, kind="edit", target=receipt.id))
    assert there.double.texts(there.direct) == [text]
    (asked,) = there.asked("chat.update")
    assert 999 <= len(asked["text"]) <= len(asked["text"].encode()) <= 4_000


async def test_an_edit_that_is_too_long_without_its_blocks_is_rejected_and_says_why(there: SlackHouse) -> None:
    receipt = await there.channel.send(there.op("first"))
    edit = there.op("x" * 4_001, kind="edit", target=receipt.id)
    there.double.fail("chat.update", "error", code="invalid_blocks")
    with pytest.raises(NotSent):
        await there.channel.send(edit)
    with pytest.raises(Rejected, match="an edit holds 4,000 characters"):
        await there.channel.send(edit)
    assert there.double.texts(there.direct) == ["first"]


async def test_a_file_is_uploaded_unseen_and_shown_by_one_message(there: SlackHouse) -> None:
    op = there.op("The *list*", kind="file", file=there.file(b"milk", "list.txt"), name="list.txt", mime="text/plain")
    there.double.fail("chat.postMessage", "429", retry_after=7)
    with pytest.raises(NotSent) as limited:
        await there.channel.send(op)
    assert limited.value.retry_after == 7 and there.double.shown(there.direct) == []
    receipt = await there.channel.send(op)
    (message,) = there.double.shown(there.direct)
    assert [file["name"] for file in message["files"]] == ["list.txt"]
    assert len(there.asked("files.getUploadURLExternal")) == 1
    assert message["text"].startswith("The _list_\n<")
    assert await there.channel.find(op, time.time() - 60) == receipt


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "files.completeUploadExternal"])
@pytest.mark.parametrize("how", ["drop", "500", "429"])
async def test_an_upload_whose_answer_is_lost_was_not_sent(there: SlackHouse, method: str, how: Any) -> None:
    there.double.fail(method, how, after=True)
    op = there.op(kind="file", file=there.file(b"milk", "list.txt"), name="list.txt")
    with pytest.raises(NotSent):
        await there.channel.send(op)
    await there.channel.send(op)
    assert len(there.double.shown(there.direct)) == 1


async def test_an_empty_or_a_missing_file_or_text_is_rejected(there: SlackHouse) -> None:
    with pytest.raises(Rejected, match="no file"):
        await there.channel.send(there.op(kind="file"))
    with pytest.raises(Rejected, match="nothing to see"):
        await there.channel.send(there.op("  \n"))
    assert not there.channel.caps.empty_files


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("code", "outcome", "told"),
    [
        ("not_in_channel", Rejected, "invite the bot"),
        ("channel_not_found", Rejected, "there is no such channel"),
        ("is_archived", Rejected, "is archived"),
        ("no_permission", Rejected, "invite the bot"),
        ("messages_tab_disabled", Rejected, "under App Home"),
        ("msg_too_long", Rejected, "msg_too_long"),
        ("some_new_error", Rejected, "some_new_error"),
        ("ratelimited", NotSent, "not now"),
        ("invalid_auth", NotSent, "does not accept this bot's token"),
        ("token_revoked", NotSent, "does not accept this bot's token"),
        ("missing_scope", NotSent, "add it under OAuth"),
        ("fatal_error", Unknown, "fatal_error"),
        ("internal_error", Unknown, "internal_error"),
        ("request_timeout", Unknown, "request_timeout"),
        ("service_unavailable", Unknown, "service_unavailable"),
        ("duplicate_message_not_found", Unknown, "duplicate_message_not_found"),
        ("duplicate_channel_not_found", Unknown, "duplicate_channel_not_found"),
    ],
)
async def test_what_an_error_means(there: SlackHouse, code: str, outcome: type[Exception], told: str) -> None:
    there.double.fail("chat.postMessage", "error", code=code)
    with pytest.raises(outcome, match=told):
        await there.channel.send(there.op("x"))


async def test_a_file_or_a_reaction_without_its_scope_is_rejected_and_keeps_no_text_back(there: SlackHouse) -> None:
    ts = there.double.write(there.direct, ANN, "hello")
    there.double.scopes -= {"files:write", "reactions:write"}
    file = there.op("caption", kind="file", file=there.file(b"x", "a.txt"), mime="text/plain")
    with pytest.raises(Rejected, match="lacks files:write"):
        await there.channel.send(file)
    with pytest.raises(Rejected, match="lacks reactions:write"):
        await there.channel.send(there.op("👍", kind="react", target=f"{there.direct}/{to_number(ts)}"))


async def test_the_tokens_stand_in_no_error_and_no_repr(there: SlackHouse) -> None:
    there.double.fail("chat.postMessage", "drop")
    with pytest.raises(Unknown) as lost:
        await there.channel.send(there.op("x"))
    texts = [repr(there.channel), repr(there.channel.settings), str(lost.value), there.channel.settings.account]
    assert not any("AbCdEf" in text or "0123456789abcdef" in text for text in texts)


# ---------------------------------------------------------------- lost answers


@pytest.mark.parametrize("in_thread", [False, True], ids=["channel", "thread"])
async def test_a_message_whose_answer_was_lost_is_found_behind_more_than_a_page(
    there: SlackHouse, in_thread: bool
) -> None:
    root = there.double.write(ROOM, ANN, "root") if in_thread else None
    address = ROOM if root is None else f"{ROOM}:thread-{to_number(root)}"
    there.double.fail("chat.postMessage", "drop", after=True)
    op = there.op("lost", to=address)
    with pytest.raises(Unknown):
        await there.channel.send(op)
    for n in range(220):
        there.double.write(ROOM, ANN, f"later {n}", thread=root)
    ts = next(each["ts"] for each in there.double.shown(ROOM) if each["user"] == BOT)
    assert await there.fresh().find(op, time.time() - 60) == Receipt(f"{ROOM}/{to_number(ts)}")


async def test_absence_is_believed_only_after_three_looks(there: SlackHouse) -> None:
    op = there.op("never sent")
    there.double.write(there.direct, ANN, "something else")
    with pytest.raises(Unknown, match="has not been connected yet"):
        await there.channel.find(op, time.time() - 60)
    await there.online()
    there.double.requests.clear()
    assert await there.channel.find(op, time.time() - 60) is None
    assert len(there.asked("conversations.history")) == 3


@pytest.mark.parametrize("how", ["drop", "500", "502", "429", "error"])
@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_look_without_an_answer_proves_nothing(there: SlackHouse, how: Any, after: int) -> None:
    there.double.fail("conversations.history", how, code="channel_not_found", skip=after)
    with pytest.raises((Unknown, NotSent)):
        await there.channel.find(there.op("never sent"), time.time() - 60)


async def test_the_status_is_shown_in_threads_only(there: SlackHouse) -> None:
    root = there.double.write(ROOM, ANN, "root")
    await there.channel.typing(ROOM)
    await there.channel.typing(f"{ROOM}:thread-{to_number(root)}")
    assert [(each["channel"], each["thread"]) for each in there.double.statuses] == [(ROOM, root)]


async def test_more_messages_than_slack_allows_wait_as_long_as_it_says(tmp_path: Path) -> None:
    async with slack(tmp_path, SlackDouble(limits=True)) as there:
        outcomes = []
        for n in range(5):
            try:
                await there.channel.send(there.op(f"message {n}"))
                outcomes.append("sent")
            except NotSent as error:
                assert error.retry_after and 0 < error.retry_after <= 3
                outcomes.append("wait")
        assert outcomes == ["sent"] * 3 + ["wait"] * 2


async def test_a_test_message_is_confirmed_and_read_back(tmp_path: Path) -> None:
    async with slack(tmp_path) as house:
        sent = await send_test_message(house.channel, ROOM)
        assert (sent.was_read_back, sent.problem) == (True, "") and sent.receipt.startswith(f"{ROOM}/")
        assert house.double.texts(ROOM) == [TEST_MESSAGE]
        refused = await send_test_message(house.channel, "C404")
        assert refused.receipt == "" and "was not sent" in refused.problem
