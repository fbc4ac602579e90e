"""A request or a question is answered by a button under it: once, and by whoever may."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from gateway_world import script, until
from people_world import ADA, BOB, Chat
from test_approvals_in_chats import KEY, TWO, asked, asking, request

from semel.gateway.ports import Button, Person
from semel.ledger.backup.snapshot import take_snapshot
from semel.ledger.delivery import parts
from semel.ledger.sqlite.store import now_ms
from semel.testing.channels import Fault, Post

EDITING = {"button_edits": True}

_presses = itertools.count(1)


def posted(w: Chat, words: str) -> Post:
    return next(post for post in w.chat.platform.log if words in post.text)


def button(post: Post, label: str) -> Button:
    return next(one for one in post.buttons if one.label == label)


async def press(w: Chat, post: Post, label: str, who: Person = ADA, group: bool = False) -> None:
    await w.chat.press(post, button(post, label), who, press=f"n{next(_presses)}", group=group)


async def ask(w: Chat, question: str, *options: str) -> Post:
    await w.tell(script({"call": "ask", "arguments": {"question": question, "options": list(options)}}))
    await w.until_shown(question)
    await w.idle(KEY)
    return posted(w, question)


async def test_a_request_is_answered_by_one_press_and_a_second_one_is_told_who_was_first(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w, BOB, room="room")
        post = posted(w, "asks for permission")
        names = [option["name"] for option in (await request(w, "demo:chat:room"))["options"]]
        assert [(one.label, one.answer) for one in post.buttons] == [
            (name, f"/approve {n}") for n, name in enumerate(names, 1)
        ]
        await press(w, post, "Allow once", ADA, group=True)
        assert await w.until_shown("Allow once, by", "room") == "Allow once, by ada: rm -r build"
        await w.until_shown("tidy", "room")
        await press(w, post, post.buttons[-1].label, ADA, group=True)
        assert "gone: Allow once, by ada" in await w.until_shown("gone", "room")
        assert (await request(w, "demo:chat:room"))["by"] == "ada"


async def test_a_press_of_who_may_not_answer_allows_nothing(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w, BOB, room="room")
        await press(w, posted(w, "asks for permission"), "Allow once", BOB, group=True)
        await w.until_shown("/approve: ", "room")
        assert (await request(w, "demo:chat:room"))["state"] == "open"


async def test_a_press_means_the_request_above_it(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w, step=TWO)
        await w.until_shown("asks for permission: rm -r dist")
        await press(w, posted(w, "permission: rm -r build"), "Allow once")
        assert await w.until_shown("Allow once: ") == "Allow once: rm -r build"


async def test_a_press_proves_that_a_request_arrived_whose_answer_was_lost(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        w.chat.platform.fail_next(Fault.DROP)
        await asked(w)

        async def held() -> bool:
            return bool(await w.gateway.record.read(parts.list_newest, "held"))

        await until(held)
        await press(w, posted(w, "asks for permission"), "Allow once")
        await w.until_shown("tidy")


async def test_a_question_is_answered_by_the_first_press_alone(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        post = await ask(w, "Which colour?", "red", "deep blue")
        await press(w, post, "deep blue")
        await press(w, post, "red")
        await press(w, post, "deep blue")
        await w.idle(KEY)
        heard = [entry["text"] for entry in await w.entries(KEY) if entry["role"] == "user"]
        assert heard[1:] == ["deep blue"]
        await w.sent()
        told = [post.text for post in w.chat.platform.log if "answered already" in post.text]
        assert told == ["That question is answered already: deep blue, by ada."], "once, and not who repeats the answer"


async def test_who_presses_after_another_person_is_told_who_was_first(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.tell("hello", ADA, room="room")
        await w.tell(script({"call": "ask", "arguments": {"question": "When?", "options": ["now"]}}), ADA, room="room")
        await w.until_shown("When?", "room")
        await press(w, posted(w, "When?"), "now", ADA, group=True)
        await press(w, posted(w, "When?"), "now", BOB, group=True)
        assert await w.until_shown("answered already", "room") == "That question is answered already: now, by ada."


@pytest.mark.parametrize("option", ["/approve 1", " /deny", "x" * 65, " "])
async def test_an_option_that_would_be_a_command_or_is_too_long_is_no_button(tmp_path: Path, option: str) -> None:
    async with Chat(tmp_path) as w:
        assert (await ask(w, "Sure?", "yes", option)).buttons == ()


def test_a_button_has_its_options_style() -> None:
    from semel.law.permission_questions import list_buttons

    options: list[dict[str, Any]] = [
        {"optionId": "a", "name": "Yes", "kind": "allow_once"},
        {"optionId": "b", "name": "Always", "kind": "allow_always"},
        {"optionId": "c", "name": "No", "kind": "reject_once"},
    ]
    assert [one["style"] for one in list_buttons(options, 4)] == ["allow", "", "deny"]
    assert list_buttons([], 4) == [{"label": "Deny", "answer": "/deny 4", "style": "deny"}]
    assert list_buttons(options, 4, "elsewhere") == []


# ---------------------------------------------------------------- once it is over


async def newest_request(w: Chat) -> dict[str, Any]:
    items = (await anext(w.gateway.watch(KEY)))["items"]
    return max((dict(item) for item in items if item["kind"] == "permission"), key=lambda item: int(item["id"]))


def edits(w: Chat) -> list[Post]:
    return [post for post in w.chat.platform.log if post.kind == "edit"]


async def until_posted(w: Chat, words: str) -> Post:
    await w.until_shown(words)
    return posted(w, words)


async def until_edited(w: Chat, count: int = 1) -> Post:
    """The newest edit, once there are so many."""

    async def there() -> bool:
        return len(edits(w)) >= count

    await until(there)
    await w.sent()
    assert len(edits(w)) == count
    return edits(w)[-1]


async def test_a_press_takes_the_buttons_away_and_the_message_says_who_answered(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=EDITING) as w:
        await asked(w, BOB, room="room")
        post = posted(w, "asks for permission")
        await press(w, post, "Allow once", ADA, group=True)
        edit = await until_edited(w)
        assert (edit.target, edit.buttons, edit.text) == (post.id, (), f"{post.text}\n\nAllow once, by ada")
        await press(w, post, "Allow once", BOB, group=True)
        await press(w, post, post.buttons[-1].label, ADA, group=True)
        assert "gone: Allow once, by ada" in await w.until_shown("gone", "room")
        await until_edited(w)


async def test_an_answer_on_the_page_takes_the_buttons_away(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=EDITING) as w:
        await asked(w)
        item = await request(w)
        option = item["options"][0]["optionId"]
        await w.gateway.controls.answer(KEY, item["id"], option, "ada")
        assert (await until_edited(w)).text.endswith("\n\nAllow once, by ada (outside the chat)")


async def test_two_answers_at_once_make_one_edit(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=EDITING) as w:
        await asked(w)
        item, post = await request(w), posted(w, "asks for permission")
        option = item["options"][0]["optionId"]
        await asyncio.gather(
            press(w, post, "Allow once"),
            w.gateway.controls.answer(KEY, item["id"], option, "eve"),
            press(w, post, "Allow once"),
        )
        edit = await until_edited(w)
        await w.until_shown("gone: Allow once, by")
        assert edit.text.count("Allow once, by") == 1


async def test_buttons_of_a_request_that_nobody_answers_go_away(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=EDITING, permission_deadline_s=0.3) as w:
        await asked(w)
        edit = await until_edited(w)
        assert edit.buttons == () and edit.text.endswith("\n\nNobody answered in time")


async def test_buttons_of_a_request_that_a_restart_ended_go_away(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=EDITING) as w:
        await asked(w)
        post = posted(w, "asks for permission")
        await w.stop()
        await w.start()
        assert (await until_edited(w)).text == f"{post.text}\n\nWithdrawn"
        await press(w, post, "Allow once")
        assert "gone: Withdrawn" in await w.until_shown("gone")


async def test_an_edit_that_the_platform_refuses_is_no_news(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=EDITING) as w:
        await asked(w)
        w.chat.platform.always = lambda op: Fault.REJECT if op.kind == "edit" else None
        await press(w, posted(w, "asks for permission"), "Allow once")
        await w.until_shown("tidy")
        await w.sent()
        assert edits(w) == []
        assert not [entry for entry in await w.entries(KEY) if "rejected" in entry["text"]]


async def test_the_buttons_of_a_question_go_away_and_it_says_what_was_chosen(tmp_path: Path) -> None:
    async with Chat(tmp_path, facts=EDITING) as w:
        post = await ask(w, "Which colour?", "red", "deep blue")
        await press(w, post, "deep blue")
        await press(w, post, "red")
        edit = await until_edited(w)
        assert (edit.target, edit.buttons, edit.text) == (post.id, (), f"{post.text}\n\ndeep blue, by ada")


async def test_a_question_that_a_message_answers_loses_its_buttons(tmp_path: Path) -> None:
    async with Chat(tmp_path, facts=EDITING) as w:
        await ask(w, "Which colour?", "red", "deep blue")
        await w.tell("neither")
        assert (await until_edited(w)).text.endswith("\n\nanswered, by ada")


async def test_an_agent_that_edits_its_question_keeps_the_buttons_until_it_is_answered(tmp_path: Path) -> None:
    async with Chat(tmp_path, facts=EDITING) as w:
        question = {"call": "ask", "arguments": {"question": "Which colour?", "options": ["red", "blue"]}}
        change = {"call": "edit_message", "arguments": {"message": "c1", "text": "Which shade?"}}
        await w.tell(script(question, change))
        post = await until_posted(w, "Which colour?")
        edit = await until_edited(w)
        assert edit.text == "Which shade?" and edit.buttons == post.buttons
        await press(w, post, "red")
        assert (await until_edited(w, 2)).text == "Which shade?\n\nred, by ada"


async def test_a_channel_that_cannot_take_buttons_away_gets_no_edit(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w)
        await press(w, posted(w, "asks for permission"), "Allow once")
        await w.until_shown("tidy")
        await w.sent()
        assert edits(w) == []


async def test_after_a_restore_the_buttons_of_older_requests_allow_nothing(tmp_path: Path) -> None:
    put_back = tmp_path / "put-back"
    (tmp_path / "first").mkdir()
    put_back.mkdir()
    async with asking(tmp_path / "first", facts=EDITING) as w:
        await asked(w)
        take_snapshot(w.settings.ledger, put_back / "ledger.db", now_ms)
        known = posted(w, "asks for permission")
        await press(w, known, known.buttons[-1].label)
        await asked(w, step={"permission": "rm -r dist", "allowed": ["tidy"]}, words="rm -r dist")
        unknown, log = posted(w, "asks for permission: rm -r dist"), w.chat.platform.log
    async with asking(put_back, facts=EDITING) as w:
        w.chat.platform.log = log
        count = len(log)
        await asked(w, step={"permission": "rm -r all", "allowed": ["gone"]}, words="rm -r all")
        for post in (known, unknown):
            await press(w, post, "Allow once")
        await w.until_shown("There is no option")
        assert (await newest_request(w))["state"] == "open"
        assert not [post for post in log[count:] if post.kind == "edit"]
