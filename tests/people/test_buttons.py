"""A request or a question is answered by a button under it: once, and by whoever may."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from gateway_world import script, until
from people_world import ADA, BOB, Chat
from test_approvals_in_chats import KEY, TWO, asked, asking, request

from semel.gateway.ports import Button, Person
from semel.ledger.delivery import parts
from semel.testing.channels import Fault, Post

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
