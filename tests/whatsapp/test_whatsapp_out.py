"""What leaves for WhatsApp, and what Meta's answers mean."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from whatsapp_house import ANN, GROUP, WhatsAppDouble, WhatsAppHouse, until, whatsapp

from semel.channels.whatsapp.receipts import TOKEN_REFUSED
from semel.channels.whatsapp.render import render, render_line
from semel.channels.whatsapp.send import choose_kind, choose_mime, make_interactive
from semel.gateway.ports import Answers, Button, NotSent, Op, Rejected, Unknown

DAY_S = 24 * 3600.0


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("**bold** and *soft* and ~~gone~~ and `code`", "*bold* and _soft_ and ~gone~ and `code`"),
        ("# Head\n\n- a\n- b\n\n1. c", "*Head*\n\n- a\n- b\n\n1. c"),
        ("```py\nx = 1\n```", "```\nx = 1\n```"),
        ("[name](https://example.org/x)", "name (https://example.org/x)"),
        ("2 * 3 * 4, a_b_c, <b>", "2 * 3 * 4, a_b_c, <b>"),
        ("bell \x07", "bell \u2407"),
    ],
)
def test_markdown_becomes_what_whatsapp_shows(markdown: str, text: str) -> None:
    assert render(markdown, 4096) == text


def test_a_text_that_would_be_too_long_stays_as_it_was_written_and_a_line_has_no_breaks() -> None:
    table = f"| a | b |\n|---|---|\n| {'x' * 40} | y |\n| z | z |"
    assert render(table, 1000).startswith("```\na ") and render(table, len(table)) == table
    assert render_line("**one**\n\n- two\t\tthree", 1000) == "*one* / - two three"


async def test_a_text_leaves_with_its_key_and_without_a_preview(there: WhatsAppHouse) -> None:
    receipt = await there.channel.send(there.op("**Hello**", key="part-1"))
    assert there.asked() == [
        {
            "messaging_product": "whatsapp", "recipient_type": "individual", "to": ANN,
            "biz_opaque_callback_data": "part-1", "type": "text", "text": {"preview_url": False, "body": "*Hello*"},
        }
    ]  # fmt: skip
    assert list(there.double.sent) == [receipt.id]
    await there.channel.send(there.op("Hello", marked=True))
    assert there.double.texts(ANN) == ["*Hello*", "(repeat) Hello"]


async def test_an_answer_quotes_in_groups_or_if_it_is_said_so(tmp_path: Path) -> None:
    async with whatsapp(tmp_path, quotes=True) as there:
        there.double.group(GROUP, ANN)
        asked = there.double.write(ANN, "hello")
        for to, channel in ((ANN, there.channel), (ANN, there.fresh(quotes=False)), (f"group-{GROUP}", there.fresh())):
            for answers in (Answers(asked), Answers("pressed:x")):
                await channel.send(there.op("Hi", to=to, answers=answers))
        quoted = [message.get("context") for message in there.asked()]
        assert quoted == [{"message_id": asked}, None, None, None, {"message_id": asked}, None]
        assert there.asked()[-1]["recipient_type"] == "group" and there.asked()[-1]["to"] == GROUP


async def test_a_reaction_is_set_and_taken_back(there: WhatsAppHouse) -> None:
    id = there.double.write(ANN, "hello")
    for emoji in ("👍", ""):
        op = there.op(emoji, kind="react", target=id)
        assert (await there.channel.send(op)).id == id
        assert there.asked()[-1]["reaction"] == {"message_id": id, "emoji": emoji}
    for text, target in ((":eyes:", id), ("👍", "no id")):
        with pytest.raises(Rejected, match=r"one emoji|not the id"):
            await there.channel.send(there.op(text, kind="react", target=target))


YES, NO = Button("Yes", "/approve 1", "allow"), Button("No", "/deny 1", "deny")
LONG = Button("Allow always for commands like these: rm -r build, make clean and such in this", "/approve 1 always")


def test_up_to_three_short_buttons_are_buttons_and_up_to_ten_a_list() -> None:
    assert make_interactive("k", "May I?", (YES, NO)) == {
        "type": "button", "body": {"text": "May I?"},
        "action": {
            "buttons": [
                {"type": "reply", "reply": {"id": "k|/approve 1", "title": "Yes"}},
                {"type": "reply", "reply": {"id": "k|/deny 1", "title": "No"}},
            ]
        },
    }  # fmt: skip
    chosen = make_interactive("k", "May I?", (YES, LONG))
    assert chosen is not None and chosen["type"] == "list"
    [section] = chosen["action"]["sections"]
    assert section["rows"] == [
        {"id": "k|/approve 1", "title": "Yes"},
        {"id": "k|/approve 1 always", "title": "Allow always for comman…",
         "description": "Allow always for commands like these: rm -r build, make clean and such …"},
    ]  # fmt: skip
    assert make_interactive("k", "x" * 1025, (YES, NO))["type"] == "list"  # type: ignore[index]
    assert make_interactive("k", "May I?", ()) is None and make_interactive("k", "May I?", (YES,) * 11) is None


async def test_what_is_asked_with_buttons_is_taken_by_the_double(there: WhatsAppHouse) -> None:
    for buttons in ((YES, NO), (YES, NO, LONG), tuple(Button(f"Option {n}", f"o{n}") for n in range(11))):
        await there.channel.send(there.op("Which?", buttons=buttons))
    assert [message["type"] for message in there.asked()] == ["interactive", "interactive", "text"]


async def test_a_question_whose_buttons_are_refused_goes_without_them(there: WhatsAppHouse) -> None:
    there.double.fail("messages", "error", code=131009)
    op = there.op("Which?", buttons=(Button("👩‍👩‍👧" * 9, "a"), NO))
    with pytest.raises(NotSent, match="the next attempt goes without buttons"):
        await there.channel.send(op)
    await there.channel.send(op)
    assert [message["type"] for message in there.asked()] == ["interactive", "text"]
    await there.channel.send(there.op("Which?", buttons=op.buttons))
    assert there.asked()[-1]["interactive"]["type"] == "list"


async def test_a_file_is_uploaded_and_shown_as_what_whatsapp_takes(there: WhatsAppHouse) -> None:
    files = [
        ("photo.png", b"png", ""),
        ("song.mp3", b"mp3", ""),
        ("song.mp3", b"mp3", "listen"),
        ("a.json", b"{}", "x"),
    ]
    for name, content, text in files:
        await there.channel.send(there.op(text, kind="file", file=there.file(content, name), name=name))
    shown = [(message["type"], message[message["type"]].get("caption")) for message in there.asked()]
    assert shown == [("image", None), ("audio", None), ("document", "listen"), ("document", "x")]
    assert [media.mime for media in there.double.media.values()][-1] == "text/plain"
    assert there.asked()[-1]["document"]["filename"] == "a.json"
    with pytest.raises(Rejected, match="one of the following types"):
        await there.channel.send(there.op(kind="file", file=there.file(b"PK", "a.zip"), name="a.zip"))


async def test_an_upload_whose_answer_is_lost_is_made_again_and_shown_once(there: WhatsAppHouse) -> None:
    there.double.fail("upload", "drop", after=True)
    there.double.fail("messages", "error", code=131056)
    op = there.op(kind="file", file=there.file(b"milk", "list.txt"), name="list.txt")
    for reason in ("the file did not arrive", "not now"):
        with pytest.raises(NotSent, match=reason):
            await there.channel.send(op)
    await there.channel.send(op)
    assert len(there.asked("upload")) == 2 and there.double.texts(ANN) == ["list.txt"]


def test_the_kind_of_a_file_is_one_that_meta_takes() -> None:
    assert choose_kind("image/png", 5_000_001, False) == "document"
    assert choose_mime("text/html; charset=utf-8") == "text/plain" and choose_mime("image/PNG") == "image/png"


@pytest.mark.parametrize(
    ("fault", "error", "words", "wait"),
    [
        ({"how": "429"}, NotSent, "too many calls", 60.0),
        ({"how": "error", "code": 131056}, NotSent, "131056", 15.0),
        ({"how": "error", "code": 130429}, NotSent, "130429", 5.0),
        ({"how": "error", "code": 80007}, NotSent, "80007", 60.0),
        ({"how": "error", "code": 131057, "status": 500}, NotSent, "131057", 60.0),
        ({"how": "error", "code": 190, "status": 401}, NotSent, TOKEN_REFUSED, 60.0),
        ({"how": "error", "code": 200, "status": 403}, NotSent, TOKEN_REFUSED, 60.0),
        ({"how": "error", "code": 3, "status": 500}, NotSent, TOKEN_REFUSED, 60.0),
        ({"how": "error", "code": 131047}, Rejected, "more than 24 hours ago", None),
        ({"how": "error", "code": 131030}, Rejected, "API Setup", None),
        ({"how": "error", "code": 131042}, Rejected, "payment", None),
        ({"how": "error", "code": 100}, Rejected, "#100", None),
        ({"how": "error", "code": 1}, Unknown, "#1", None),
        ({"how": "error", "code": 2, "status": 503}, Unknown, "#2", None),
        ({"how": "500"}, Unknown, "131000", None),
        ({"how": "502"}, Unknown, "HTTP 502", None),
        ({"how": "drop"}, Unknown, "no report", None),
        ({"how": "drop", "after": True}, Unknown, "no report", None),
    ],
    ids=str,
)
async def test_an_answer_means_what_meta_documents(
    there: WhatsAppHouse, fault: dict[str, Any], error: type[Exception], words: str, wait: float | None
) -> None:
    there.double.fail("messages", **fault)
    with pytest.raises(error) as caught:
        await there.channel.send(there.op("hello"))
    assert words in str(caught.value)
    if isinstance(caught.value, NotSent):
        assert caught.value.retry_after == wait


async def test_a_report_is_the_late_receipt_of_a_message_whose_answer_was_lost(tmp_path: Path) -> None:
    async with whatsapp(tmp_path, settle=20.0) as there:
        there.double.fail("messages", "drop", after=True)
        sending = asyncio.create_task(there.channel.send(there.op("hello", key="part-1")))
        await until(lambda: bool(there.double.sent))
        await there.deliver()
        receipt = await sending
        assert [receipt.id] == list(there.double.sent)
        assert [(event.kind, event.key, event.of) for event in there.inbox.events] == [("echo", "part-1", receipt.id)]


async def test_a_failure_that_is_reported_later_says_why(there: WhatsAppHouse) -> None:
    await there.channel.send(there.op("hello", to="4930111", key="part-1"))
    await there.deliver()
    there.double.post_again()
    await there.deliver()
    [failed] = there.inbox.events
    assert (failed.kind, failed.of, failed.key) == ("failed", "part-1", f"{next(iter(there.double.sent))}#failed")
    assert failed.text.startswith("Message undeliverable (131026); the person has no WhatsApp")


async def test_a_refusal_that_is_reported_too_is_told_once(there: WhatsAppHouse) -> None:
    there.double.fail("messages", "error", code=131056)
    op = there.op("hello")
    with pytest.raises(NotSent):
        await there.channel.send(op)
    report = {"id": "wamid.refused", "status": "failed", "timestamp": "1", "recipient_id": ANN}
    report |= {"biz_opaque_callback_data": op.key, "errors": [{"code": 131056, "title": "pair rate limit hit"}]}
    there.double._post({"statuses": [report]})
    assert await there.deliver() == [200] and there.inbox.events == []
    await there.channel.send(op)
    there.double._report(next(iter(there.double.sent)), "failed")
    await there.deliver()
    assert [event.kind for event in there.inbox.events] == ["echo"]  # sent and delivered came before


async def test_what_arrived_on_one_device_has_not_failed(there: WhatsAppHouse) -> None:
    receipt = await there.channel.send(there.op("hello"))
    await there.deliver()
    there.double._report(receipt.id, "failed")
    there.double.read(ANN)
    await there.deliver()
    assert [event.kind for event in there.inbox.events] == ["echo"]


# ---------------------------------------------------------------- the 24 hours


async def late(there: WhatsAppHouse) -> None:
    """Let Ann have written more than 24 hours ago."""
    await there.online()
    there.double.write(ANN, "hello")
    await there.deliver()
    there.clock.now += DAY_S + 1


async def test_without_a_template_a_late_message_is_rejected_in_words(there: WhatsAppHouse) -> None:
    await late(there)
    with pytest.raises(Rejected, match=r"wrote last more than 24 hours ago.*setting `template`"):
        await there.channel.send(there.op("hello"))
    there.double.write(ANN, "here I am")
    await there.channel.send(there.op("hello"))
    assert there.double.texts(ANN) == ["hello"]


async def test_a_late_message_goes_as_the_template_and_later_ones_freely_again(tmp_path: Path) -> None:
    async with whatsapp(tmp_path, template="semel_update") as there:
        there.double.templates["semel_update", "en"] = "Your agent says: {{1}}. Reply to go on."
        await late(there)
        await there.channel.send(there.op("**Done**\n\n- a\n- b", buttons=(YES,)))
        assert there.double.texts(ANN) == ["Your agent says: *Done* / - a / - b. Reply to go on."]
        with pytest.raises(Rejected, match="takes 900 characters; this message has 901"):
            await there.channel.send(there.op("x" * 901))
        there.double.write(ANN, "here I am")
        await there.deliver()
        await there.channel.send(there.op("hello"))
        assert there.double.texts(ANN)[1:] == ["hello"]


async def test_if_only_meta_knows_that_it_is_late_the_next_attempt_goes_as_the_template(tmp_path: Path) -> None:
    async with whatsapp(tmp_path, template="semel_update") as there:
        there.double.templates["semel_update", "en"] = "Your agent says: {{1}}"
        there.double.people[ANN].heard_at = 0.0
        op = there.op("hello")
        with pytest.raises(NotSent, match="the next attempt goes as the template") as caught:
            await there.channel.send(op)
        assert caught.value.retry_after == 0
        await there.channel.send(op)
        assert there.double.texts(ANN) == ["Your agent says: hello"]


async def test_if_meta_reports_it_later_the_message_failed_and_the_next_goes_as_the_template(tmp_path: Path) -> None:
    async with whatsapp(tmp_path, WhatsAppDouble(window_answer="status"), template="semel_update") as there:
        there.double.templates["semel_update", "en"] = "Your agent says: {{1}}"
        there.double.people[ANN].heard_at = 0.0
        await there.channel.send(there.op("hello"))
        await there.deliver()
        assert [event.kind for event in there.inbox.events] == ["failed"]
        await there.channel.send(there.op("hello again"))
        assert there.double.texts(ANN) == ["Your agent says: hello again"]
        there.channel = there.fresh()  # after a restart, or in another gateway, it is known from the cursor
        await there.online()
        await there.channel.send(there.op("once more"))
        assert there.double.texts(ANN)[-1] == "Your agent says: once more"


# ---------------------------------------------------------------- odds and ends


async def test_typing_marks_the_newest_message_as_read_and_is_renewed_in_time(there: WhatsAppHouse) -> None:
    await there.channel.typing(ANN)
    id = there.double.write(ANN, "hello")
    await there.deliver()
    for _ in range(3):
        await there.channel.typing(ANN)
    [shown] = there.asked("typing")
    assert (shown["message_id"], shown["status"], shown["typing_indicator"]) == (id, "read", {"type": "text"})


@pytest.mark.parametrize("address", ["ann", "+16505551234", "group-", "../me", "US", "16505551234/messages"])
async def test_a_wrong_address_is_rejected_with_a_right_one(there: WhatsAppHouse, address: str) -> None:
    with pytest.raises(Rejected, match="such as 16505551234"):
        await there.channel.send(Op("k", "post", address, "hello"))
    assert there.double.requests == []


async def test_secrets_stand_in_no_error_and_no_repr(there: WhatsAppHouse) -> None:
    texts = [repr(there.channel), repr(there.channel.settings), repr(there.channel._api)]
    for how in ("drop", "502", "500"):
        there.double.fail("messages", how)  # type: ignore[arg-type]
        with pytest.raises(Unknown) as caught:
            await there.channel.send(there.op("hello"))
        texts.append(str(caught.value))
    secrets = (there.double.token, there.double.app_secret, there.double.verify_token)
    assert not [secret for secret in secrets if secret in json.dumps(texts)]
