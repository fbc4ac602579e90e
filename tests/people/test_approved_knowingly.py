"""Law 13: nobody allows what they have not seen, however an answer is given, and whatever happens between."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gateway_world import script, until
from people_world import ADA, Chat, said

from semel.gateway.errors import BadRequest
from semel.gateway.ports import Op
from semel.ledger.admin.export import ExportWriter
from semel.ledger.inbound import answers
from semel.testing.channels import Fault, Platform, Post

Json = dict[str, Any]
KEY = "demo:chat:dm"
NEXT = {"permission": "rm -r /", "input": {"command": "rm -r /"}, "allowed": ["gone"], "denied": ["kept"]}
ASK = {"permission": "ls", "input": {"command": "ls"}, "allowed": [NEXT], "denied": ["left it"]}
GONE = "That request is gone"
UNREAD = "Nothing was allowed or denied: the request had not reached you here"
UNSURE = "Nothing was allowed or denied. The open request (rm -r /) may not have reached this chat. "


async def items(w: Chat, session: str = KEY) -> dict[str, Json]:
    found = (await anext(w.gateway.watch(session)))["items"]
    return {str(one["title"]): one for one in found if one["kind"] == "permission"}


async def until_open(w: Chat, title: str, session: str = KEY) -> Json:
    """The request, as soon as it is recorded: before anybody was told of it."""

    async def is_open() -> bool:
        return (await items(w, session)).get(title, {}).get("state") == "open"

    await until(is_open)
    return (await items(w, session))[title]


async def until_read(w: Chat, title: str) -> None:
    """The chat has the request, and the gateway knows that it has."""

    async def is_sent() -> bool:
        entries = [e for e in await w.entries(KEY) if e["text"].startswith(f"The agent asks for permission: {title}\n")]
        return bool(entries) and all(one["state"] == "sent" for one in entries[-1]["delivery"])

    await until(is_sent)


async def answer_to_last(w: Chat) -> str:
    """What the gateway says to the last command in the record, sent or not."""
    found: list[str] = []

    async def is_answered() -> bool:
        entries = await w.entries(KEY)
        commands = [e for e in entries if e.get("kind") == "command"]
        found[:] = [e["text"] for e in commands if e["role"] == "notice" and e["of"] == heard_last(commands)]
        return bool(found)

    await until(is_answered)
    return found[0]


def heard_last(commands: list[Json]) -> int:
    return max(int(e["seq"]) for e in commands if e["role"] == "user")


async def exported(w: Chat, session: str) -> bytes:
    writer, lines = ExportWriter(), list[bytes]()
    async for records in w.gateway.export(session):
        lines += map(writer.format_line, records)
    return b"".join([*lines, writer.end()])


async def asked(w: Chat, step: Json = ASK, **more: Any) -> None:
    await w.tell(script(step), ADA, **more)
    await until_read(w, str(step["permission"]))


@pytest.mark.parametrize("words", ["/approve", "/approve 4", "/deny", "/deny 4"])
async def test_a_second_tap_decides_nothing_that_has_not_reached_the_chat(tmp_path: Path, words: str) -> None:
    async with Chat(tmp_path) as w:
        await asked(w)
        w.chat.platform.fail_always(Fault.REFUSE)
        await w.tell("/approve")
        assert (await until_open(w, "rm -r /"))["first"] == 4
        await w.tell(words)
        told = await answer_to_last(w)
        assert told.startswith(GONE if words in ("/approve", "/deny") else UNREAD)
        assert (await items(w))["rm -r /"]["state"] == "open"
        w.chat.platform.fail_always(None)
        await until_read(w, "rm -r /")
        await w.tell(words)
        await w.until_shown("gone" if "approve" in words else "kept")


async def test_the_number_of_an_earlier_request_never_means_another_one(tmp_path: Path) -> None:
    """Not in the next turn, not in the next chapter, and not after a restart."""
    last = 0
    for n in range(2):
        async with Chat(tmp_path) as w:
            for words in ("first", "second"):
                await asked(w, {**NEXT, "permission": f"{words} {n}"})
                request = (await items(w))[f"{words} {n}"]
                assert request["first"] == last + 1
                if last:
                    await w.tell(f"/approve {last}")
                    assert (await answer_to_last(w)).startswith(GONE)
                    assert (await items(w))[f"{words} {n}"]["state"] == "open"
                last = request["first"] + len(request["options"]) - 1
                await w.tell("/deny")
                await w.idle(KEY)
            await w.tell("/new")
            await answer_to_last(w)


async def test_the_numbers_of_a_session_go_on_where_it_is_imported(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await asked(w)
        await w.tell("/deny")
        await w.idle(KEY)
        file = await exported(w, KEY)
        await w.gateway.import_session(io.BytesIO(file), "demo:web:copy")
        await w.gateway.say("demo:web:copy", script(NEXT))
        assert (await until_open(w, "rm -r /", "demo:web:copy"))["first"] == 4
        await w.gateway.controls.stop_turn("demo:web:copy", "Ada")
        await w.gateway.delete(KEY)
        await w.gateway.import_session(io.BytesIO(file), KEY)
        await w.tell(script(NEXT))
        assert (await until_open(w, "rm -r /"))["first"] == 4


async def test_what_was_answered_on_the_page_is_gone_in_the_chat(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await asked(w)
        first = (await items(w))["ls"]
        w.chat.platform.fail_always(Fault.REFUSE)
        assert await w.gateway.controls.answer(KEY, first["id"], "allow", "the page") == "answered"
        await until_open(w, "rm -r /")
        for words in ("/approve", "/approve 1"):
            await w.tell(words)
            assert "Allow once, by the page (outside the chat): ls" in await answer_to_last(w)
        assert (await items(w))["rm -r /"]["state"] == "open"


async def test_page_and_chat_at_once_answer_it_once(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await asked(w, NEXT)
        item = (await items(w))["rm -r /"]
        page = asyncio.ensure_future(w.gateway.controls.answer(KEY, item["id"], "reject", "the page"))
        await w.tell("/approve")
        told, outcome = await answer_to_last(w), await page
        await w.idle(KEY)
        allowed = (await items(w))["rm -r /"]["answer"] == "allow"
        assert (outcome, told.startswith(GONE)) == (("already", False) if allowed else ("answered", True))


async def test_what_may_not_have_arrived_is_not_allowed_from_there(tmp_path: Path) -> None:
    """The platform took it and nobody knows: it is held, until a person says that it arrived, or has it sent again."""
    async with Chat(tmp_path) as w:
        w.chat.platform.fail_next(Fault.DROP)
        await w.tell(script(NEXT))
        await until_open(w, "rm -r /")
        await w.until_shown("asks for permission")

        async def is_held() -> bool:
            return bool(await w.gateway.parts("held"))

        await until(is_held)
        await w.tell("/approve")
        assert (await answer_to_last(w)).startswith(UNSURE)
        [part] = await w.gateway.parts("held")
        await w.gateway.decide_part(part["id"], "arrived")
        await w.tell("/approve")
        await w.until_shown("gone")


async def test_what_is_sent_again_counts_once_it_is_sent(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        w.chat.platform.fail_next(Fault.LOSE)
        await w.tell(script(NEXT))

        async def is_held() -> bool:
            return bool(await w.gateway.parts("held"))

        await until(is_held)
        await w.tell("/approve 1")
        assert (await answer_to_last(w)).startswith(UNSURE)
        [part] = await w.gateway.parts("held")
        await w.gateway.decide_part(part["id"], "resend")
        await until_read(w, "rm -r /")
        await w.tell("/approve 1")
        await w.until_shown("gone")


async def test_a_question_in_parts_counts_once_all_of_them_are_there(tmp_path: Path) -> None:
    async with Chat(tmp_path, facts={"max_len": 200}) as w:
        w.chat.platform.fail_next(None, *[Fault.REFUSE] * 3)
        await w.tell(script({**NEXT, "input": {"command": "rm -r /" + " x" * 200}}))
        await until_open(w, "rm -r /")
        await w.until_shown("asks for permission")
        await w.tell("/approve")
        assert (await answer_to_last(w)).startswith(UNREAD)
        w.chat.platform.plan.clear()
        await until_read(w, "rm -r /")
        await w.tell("/approve")
        await w.until_shown("gone")


async def test_an_answer_from_before_the_question_is_none(tmp_path: Path) -> None:
    """It was written while the gateway was away, and is heard after the question has left."""
    async with Chat(tmp_path) as w:
        await asked(w, NEXT)
        await w.tell("/approve", at=1_000_000_000.0)
        assert (await answer_to_last(w)).startswith(UNREAD)
        await w.tell("/approve")
        await w.until_shown("gone")


async def test_where_the_platform_numbers_its_messages_the_order_is_its_own(tmp_path: Path) -> None:
    platform = Numbered()
    async with Chat(tmp_path, facts={"platform": platform, "numbered": True}) as w:
        await asked(w, NEXT)
        await w.chat.tell(said("/approve", key="dm/9"))
        assert (await answer_to_last(w)).startswith(UNREAD)
        await w.chat.tell(said("/approve", key="dm/101"))
        await w.until_shown("gone")


async def test_a_reply_to_what_nobody_knows_allows_nothing(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await asked(w, NEXT)
        await w.tell("/approve", of="some other message")
        assert "the message that you replied to is not known here" in await answer_to_last(w)
        assert (await items(w))["rm -r /"]["state"] == "open"


async def test_over_the_api_a_text_allows_only_what_its_view_had_shown(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.gateway.say("s", script(ASK))
        first = await until_open(w, "ls", "s")
        rev = (await anext(w.gateway.watch("s")))["rev"]

        async def told(text: str, seen: int | None) -> str:
            event = (await w.gateway.say("s", text, seen=seen)).event

            def done(entries: list[Json]) -> list[str]:
                own = [e["seq"] for e in entries if e.get("event") == event]
                return [e["text"] for e in entries if e.get("of") in own and e["role"] == "notice"]

            async def is_answered() -> bool:
                return bool(done(await w.entries("s")))

            await until(is_answered)
            return done(await w.entries("s"))[0]

        assert "confirm it with its number, like /approve 1" in await told("/approve", None)
        assert "confirm it with its number, like /deny 1" in await told("/deny", None)
        assert (await told("/approve", first["born"] - 1)).startswith(UNREAD)
        assert (await told("/approve", rev)).startswith("Allow once: ls")
        await until_open(w, "rm -r /", "s")
        assert (await told("/approve", rev)).startswith(GONE)
        assert (await told("/approve 4", rev)).startswith(UNREAD)
        with pytest.raises(BadRequest, match="is newer than the rev that was seen"):
            second = (await items(w, "s"))["rm -r /"]["id"]
            await w.gateway.controls.answer("s", second, "allow", "Ada", context=answers.AnswerContext(seen=rev))
        assert (await items(w, "s"))["rm -r /"]["state"] == "open"
        assert (await told("/deny 4", None)).startswith("Reject: rm -r /")


async def test_of_two_agents_in_one_chat_the_other_ones_request_is_not_allowed(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await asked(w, NEXT)
        other = "demo:chat:dm:helper"
        await w.gateway.say(other, "say: hello")
        await w.idle(other)
        await w.gateway.record.write(at_home, other, "chat:dm")
        await w.gateway.say(other, script({**NEXT, "permission": "mkfs"}))
        await w.until_shown("asks for permission: mkfs")
        await w.sent()
        question = w.chat.platform.log[-1].id
        for words, of in (("/approve", None), ("/approve 1", None), ("/approve", question)):
            await w.tell(words, of=of)
            assert (await answer_to_last(w)).startswith("Nothing was allowed or denied")
        assert (await items(w))["rm -r /"]["state"] == (await items(w, other))["mkfs"]["state"] == "open"
        await w.tell("/approve", of=next(post.id for post in w.chat.platform.log if "rm -r /" in post.text))
        await w.until_shown("gone")


class Numbered(Platform):
    """Ids are PLACE/NUMBER; the first one is 100."""

    def take(self, op: Op) -> Post:
        post = replace(super().take(op), id=f"{op.address}/{100 * len(self.log)}")
        self.log[-1] = post
        return post


def at_home(tx: Any, key: str, home: str) -> None:
    tx._cursor.execute("UPDATE session SET home = :home WHERE key = :key", {"key": key, "home": home})


# ---------------------------------------------------------------- and what becomes of an answer


async def test_an_answer_that_was_heard_and_not_served_allows_nothing_after_a_restart(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await asked(w, NEXT)
        w.gateway.inbox.commands.wake = lambda session: None  # type: ignore[method-assign]
        await w.tell("/approve")
    async with Chat(tmp_path) as w:
        assert (await answer_to_last(w)).startswith(GONE)
        assert (await items(w))["rm -r /"]["state"] == "cancelled"


@pytest.mark.parametrize("how", ["page", "chat"])
async def test_who_answers_while_a_stop_is_faster_is_told_that_it_did_not_count(tmp_path: Path, how: str) -> None:
    """The answer is recorded; before the agent has it, the turn is stopped."""
    async with Chat(tmp_path) as w:
        await asked(w, NEXT)
        item = (await items(w))["rm -r /"]
        write = w.gateway.record.write

        async def overtaken(body: Any, *args: Any) -> Any:
            done = await write(body, *args)
            if body is answers.record_answer:
                await w.gateway.controls.stop_turn(KEY, "Bob")
            return done

        w.gateway.record.write = overtaken  # type: ignore[method-assign]
        if how == "page":
            assert await w.gateway.controls.answer(KEY, item["id"], "allow", "the page") == "closed"
        else:
            await w.tell("/approve")
            assert (await answer_to_last(w)).startswith(GONE)
        w.gateway.record.write = write  # type: ignore[method-assign]
        await w.idle(KEY)
        assert (await items(w))["rm -r /"]["state"] == "cancelled"
        assert "gone" not in await w.texts(KEY, "agent")
        await w.until_shown("Withdrawn: rm -r /")


@pytest.mark.parametrize("answer", [None, "", "  \n"])
async def test_a_question_is_answered_with_words(tmp_path: Path, answer: str | None) -> None:
    async with Chat(tmp_path) as w:
        await w.gateway.say("s", script({"call": "ask", "arguments": {"question": "Which?", "options": ["a", "b"]}}))
        await w.idle("s")
        [question] = [one for one in (await anext(w.gateway.watch("s")))["items"] if one["kind"] == "ask"]
        before = len(await w.entries("s"))
        with pytest.raises(BadRequest, match="a question is answered with words"):
            await w.gateway.controls.answer("s", question["id"], answer, "Ada")
        assert len(await w.entries("s")) == before
        assert await w.gateway.controls.answer("s", question["id"], "b", "Ada") == "answered"


async def test_an_answer_that_another_one_overtakes_says_whose_it_was(tmp_path: Path) -> None:
    """The chat's answer was accepted; before it counts, somebody answers on the page."""
    async with Chat(tmp_path) as w:
        await asked(w, NEXT)
        item, answer = (await items(w))["rm -r /"], w.gateway.controls.answer

        async def answer_late(*words: Any, **more: Any) -> str:
            await answer(KEY, item["id"], item["options"][0]["optionId"], "the page")
            return await answer(*words, **more)

        w.gateway.controls.answer = answer_late
        await w.tell("/deny")
        told = await answer_to_last(w)
        assert told.startswith(GONE) and "The answer of ada came too late and changed nothing." in told
