"""A request or a question is answered by a reaction to it, where reactions are buttons (`Caps.button_reactions`)."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from gateway_world import script, until
from people_world import ADA, BOB, Chat
from test_approvals_in_chats import ASK, KEY, TWO, asked, asking, request
from test_buttons import ask, edits, posted, until_edited

from semel.gateway.ports import Incoming, Op, Person
from semel.law.answer_emoji import choose_for_question, choose_for_request
from semel.ledger.admin import explain
from semel.ledger.delivery import buttons, parts
from semel.testing.channels import Fault, Post

REACTING = {"button_reactions": True, "button_edits": True}
_reactions = itertools.count(1)


def make_reaction(post: Post, emoji: str, who: Person = ADA) -> Incoming:
    group = post.address != "dm"
    return Incoming("reaction", f"r{next(_reactions)}", post.address, who, emoji, of=post.id, group=group)


async def press_reaction(w: Chat, post: Post, emoji: str, who: Person = ADA, copies: int = 1) -> None:
    await w.chat.tell(make_reaction(post, emoji, who), copies=copies)


async def until_edited_to(w: Chat, words: str) -> None:
    async def there() -> bool:
        return any(words in edit.text for edit in edits(w))

    await until(there)


async def keep_unfilled(w: Chat, text: str) -> Post:
    """Say a text, and put off all edits. Return the placeholder of the answer, once the ledger knows it."""
    is_filling = asyncio.Event()

    def put_off(op: Op) -> Fault | None:
        if op.kind != "edit":
            return None
        is_filling.set()
        return Fault.LIMIT

    w.chat.platform.retry_after = 0.2
    w.chat.platform.always = put_off
    await w.tell(text)
    async with asyncio.timeout(30):
        await is_filling.wait()
    return w.chat.platform.log[0]


def list_offered(w: Chat, post: Post) -> list[str]:
    """The emoji of our own reactions to a message."""
    return [each.text for each in w.chat.platform.log if each.kind == "react" and each.target == post.id]


async def until_offered(w: Chat, post: Post, count: int) -> list[str]:
    async def there() -> bool:
        return len(list_offered(w, post)) >= count

    await until(there)
    return list_offered(w, post)


async def test_a_request_offers_an_emoji_for_each_option_and_a_reaction_answers_it_once(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=REACTING) as w:
        told = await asked(w, BOB, room="room")
        post = posted(w, "asks for permission")
        options = (await request(w, "demo:chat:room"))["options"]
        emoji = await until_offered(w, post, len(options))
        assert emoji[0] == "✅" and len(set(emoji)) == len(options) and post.buttons == ()
        for n, (each, option) in enumerate(zip(emoji, options, strict=True), 1):
            assert f"\n{n}. {each} {option['name']}" in told
        assert "/deny, or reacts with an option's emoji, within" in told
        await press_reaction(w, post, "✅\ufe0f", copies=3)
        assert await w.until_shown("Allow once, by", "room") == "Allow once, by ada: rm -r build"
        assert (await until_edited(w)).text == f"{post.text}\n\nAllow once, by ada"
        await press_reaction(w, post, emoji[-1])
        assert "gone: Allow once, by ada" in await w.until_shown("gone", "room")
        assert (await request(w, "demo:chat:room"))["by"] == "ada"
        await w.sent()
        assert list_offered(w, post) == emoji
        [part] = [one["id"] for one in await w.gateway.record.read(parts.list_newest) if one["text"] == emoji[0]]
        story = await w.gateway.record.read(explain.tell_story, f"p{part}")
        assert "can be answered by a reaction" in str(story)


async def test_a_reaction_of_who_may_not_answer_or_to_another_message_allows_nothing(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=REACTING) as w:
        await w.tell("hello", room="room", group=True, mentioned=True)
        hello = Post((await w.until_shown("", "room")) and w.chat.platform.log[0].id, "", "room", "")
        await asked(w, BOB, room="room")
        post = posted(w, "asks for permission")
        await w.sent()  # a reaction before the gateway knows that the message arrived is an ordinary one
        await press_reaction(w, post, "✅", BOB)
        await w.until_shown("/approve: ", "room")
        await press_reaction(w, hello, "✅")
        await press_reaction(w, replace(post, address="dm"), "✅")  # as if it were one of this conversation
        await press_reaction(w, post, "👍")
        assert (await request(w, "demo:chat:room"))["state"] == "open"
        assert [one.get("kind") for one in await w.entries(KEY)] == ["reaction"]
        heard = [one for one in await w.entries("demo:chat:room") if one.get("kind") == "reaction"]
        assert [one["emoji"] for one in heard] == ["✅", "👍"], "any other reaction stays one"
        await w.tell("/approve", room="room", group=True, mentioned=True)
        await w.until_shown("Allow once, by ada", "room")


async def test_a_reaction_answers_the_request_that_it_is_under(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=REACTING) as w:
        await asked(w, step=TWO)
        await w.until_shown("asks for permission: rm -r dist")
        await w.sent()
        await press_reaction(w, posted(w, "permission: rm -r build"), "✅")
        assert await w.until_shown("Allow once: ") == "Allow once: rm -r build"


async def test_a_reaction_counts_that_comes_with_the_first_news_of_its_message(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=REACTING) as w:
        w.chat.platform.fail_next(Fault.DROP)
        await asked(w)
        post = posted(w, "asks for permission")
        await w.chat.tell(Incoming("echo", post.key, of=post.id), make_reaction(post, "✅"))
        await w.until_shown("tidy")


async def test_where_an_account_has_one_reaction_the_text_names_the_emoji_and_none_is_ours(tmp_path: Path) -> None:
    async with asking(tmp_path, facts={**REACTING, "one_reaction": True}) as w:
        told = await asked(w)
        assert "\n1. ✅ " in told and "reacts with an option's emoji" in told
        await w.sent()
        await press_reaction(w, posted(w, "asks for permission"), "✅")
        await w.until_shown("tidy")
        post = await ask(w, "Which colour?", "red", "deep blue")
        await w.sent()
        assert post.text.endswith("\n\nTo answer, write, or react to it with an option's number (1️⃣ 2️⃣).")
        await press_reaction(w, post, "2️⃣")
        assert (await until_edited(w, 2)).text == f"{post.text}\n\ndeep blue, by ada"
        assert not [each for each in w.chat.platform.log if each.kind == "react"]


async def test_a_question_in_a_group_says_that_a_reaction_answers_it(tmp_path: Path) -> None:
    async with Chat(tmp_path, facts=REACTING) as w:
        step = script({"call": "ask", "arguments": {"question": "Which?", "options": ["red", "blue"]}})
        await w.tell(step, room="room", group=True, mentioned=True)
        how = "In the group, reply to this message to answer, or react to it with an option's number (1️⃣ 2️⃣)."
        assert (await w.until_shown("Which?", "room")).endswith(f"\n\n{how}")


async def test_a_reaction_to_the_placeholder_of_a_request_allows_nothing_and_its_person_is_told(tmp_path: Path) -> None:
    facts = {**REACTING, "one_reaction": True, "deletes": True, "edits": True}
    async with asking(tmp_path, facts=facts, own={"reserve": True}) as w:
        placeholder = await keep_unfilled(w, script(ASK))
        await press_reaction(w, placeholder, "✅")
        assert (await request(w))["state"] == "open"
        w.chat.platform.always = lambda op: None
        await until_edited_to(w, "had not reached you here when your answer arrived")
        assert (await request(w))["state"] == "open"
        await press_reaction(w, placeholder, "✅")
        await until_edited_to(w, "tidy")


async def test_a_reaction_to_the_placeholder_of_a_question_does_not_answer_it(tmp_path: Path) -> None:
    facts = {**REACTING, "one_reaction": True, "deletes": True, "edits": True}
    async with asking(tmp_path, facts=facts, own={"reserve": True}) as w:
        placeholder = await keep_unfilled(
            w, script({"call": "ask", "arguments": {"question": "Which colour?", "options": ["red", "blue"]}})
        )
        await press_reaction(w, placeholder, "1\ufe0f\u20e3")
        w.chat.platform.always = lambda op: None
        await until_edited_to(w, "Which colour?")
        await w.sent()
        await press_reaction(w, placeholder, "2\ufe0f\u20e3")
        await until_edited_to(w, "blue, by ada")


async def test_a_reaction_of_a_program_answers_nothing(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=REACTING) as w:
        await asked(w)
        await press_reaction(w, posted(w, "asks for permission"), "✅", replace(ADA, bot=True))
        await w.tell("/deny")
        await w.until_shown("left it")


async def test_no_reaction_is_offered_where_it_is_not_certain_what_people_react_to(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=REACTING) as w:
        w.chat.can_press = lambda address: False  # type: ignore[attr-defined]
        assert "react" not in await asked(w)
        await press_reaction(w, posted(w, "asks for permission"), "✅")
        await w.tell("/deny")
        await w.until_shown("left it")


async def test_a_question_is_answered_by_the_first_number_that_somebody_presses(tmp_path: Path) -> None:
    async with Chat(tmp_path, facts=REACTING) as w:
        post = await ask(w, "Which colour?", "red", "deep blue")
        assert await until_offered(w, post, 2) == ["1\ufe0f\u20e3", "2\ufe0f\u20e3"]
        await press_reaction(w, post, "2\u20e3")
        await press_reaction(w, post, "1\ufe0f\u20e3")
        assert (await until_edited(w)).text == f"{post.text}\n\ndeep blue, by ada"
        await w.idle(KEY)
        heard = [entry["text"] for entry in await w.entries(KEY) if entry["role"] == "user"]
        assert heard[1:] == ["deep blue"]
        assert await w.until_shown("answered already") == "That question is answered already: deep blue, by ada."


async def test_who_presses_when_nothing_else_is_to_be_sent_is_told_at_once(tmp_path: Path) -> None:
    async with Chat(tmp_path, facts=REACTING) as w:
        post = await ask(w, "Which colour?", "red", "deep blue")
        await until_offered(w, post, 2)
        await press_reaction(w, post, "2\u20e3")
        await w.until_shown("You said: deep blue")
        await w.sent()
        await w.idle(KEY)
        await w.gateway.outbox.wait_until_idle()
        await press_reaction(w, post, "1\u20e3")
        await w.until_shown("answered already")


async def test_an_answer_that_is_reported_again_after_its_session_was_deleted_stays_a_repeat(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=REACTING) as w:
        await asked(w)
        await until_offered(w, posted(w, "asks for permission"), 1)
        approval = make_reaction(posted(w, "asks for permission"), "✅")
        await w.chat.tell(approval)
        await w.until_shown("tidy")
        question = await ask(w, "Which colour?", "red", "blue")
        await until_offered(w, question, 1)
        answer = make_reaction(question, "2\u20e3")
        await w.chat.tell(answer)
        await w.until_shown("You said: blue")
        await w.idle(KEY)
        await w.gateway.delete(KEY)

        async def erased() -> bool:
            return not await w.gateway.record.read(
                buttons.find_answer, "chat:dm", KEY, str(answer.of), None, answer.text
            )

        await until(erased)
        await w.chat.tell(approval, answer)
        assert KEY not in [session["key"] for session in await w.gateway.sessions()]


async def test_reactions_that_have_not_left_are_dropped_once_the_request_is_answered(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=REACTING) as w:
        w.chat.platform.retry_after = 0.2
        w.chat.platform.always = lambda op: Fault.LIMIT if op.kind == "react" else None
        await asked(w)
        post = posted(w, "asks for permission")
        await w.tell("/approve")
        await w.idle(KEY)
        w.chat.platform.always = lambda op: None
        await until_edited(w)
        await w.sent()
        assert list_offered(w, post) == [] and len(edits(w)) == 1


async def test_a_reaction_of_ours_that_the_platform_refuses_causes_no_notice(tmp_path: Path) -> None:
    async with asking(tmp_path, facts=REACTING) as w:
        w.chat.platform.always = lambda op: Fault.REJECT if op.kind == "react" else None
        await asked(w)
        await w.sent()
        assert not [entry for entry in await w.entries(KEY) if "rejected" in entry["text"]]
        await press_reaction(w, posted(w, "asks for permission"), "✅")
        await w.until_shown("tidy")


@pytest.mark.parametrize("count", [1, 4, 10])
def test_no_two_options_have_the_same_emoji(count: int) -> None:
    buttons = [{"style": style} for style in ("allow", "deny", "allow", "", "deny", "deny", "", "", "", "")][:count]
    assert len(set(choose_for_request(buttons))) == len(set(choose_for_question(buttons))) == count
    assert choose_for_request([{}] * 11) == choose_for_question([{}] * 11) == ()
