"""What an agent asks is asked where its person is, answered in words, by whoever may."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gateway_world import script, until
from people_world import ADA, BOB, EVE, Chat

from semel.gateway.ports import Person
from semel.gateway.turns.permissions import DENIED_UNSEEN
from semel.law import permission_questions, permissions
from semel.ledger.turns.spawns import list_orphaned
from semel.testing.channels import Fault

Json = dict[str, Any]
KEY = "demo:chat:dm"
ASK = {"permission": "rm -r build", "input": {"command": "rm -r build"}, "allowed": ["tidy"], "denied": ["left it"]}
TWO = {"together": [[ASK], [{**ASK, "permission": "rm -r dist", "allowed": ["also"], "denied": ["not that"]}]]}


def asking(path: Path, *, approvals: Sequence[str] = ("owner",), **more: Any) -> Chat:
    return Chat(path, agent={"approvals": tuple(approvals)}, **more)


async def asked(w: Chat, who: Person = ADA, step: Json = ASK, room: str = "dm", words: str = "rm -r build") -> str:
    """Somebody has the agent do it; what the chat is told."""
    await w.tell(script(step), who, room, group=room != "dm", mentioned=room != "dm")
    return await w.until_shown(f"The agent asks for permission: {words}", room)


async def request(w: Chat, session: str = KEY) -> Json:
    [item] = [i for i in (await anext(w.gateway.watch(session)))["items"] if i["kind"] == "permission"]
    return dict(item)


async def test_it_is_asked_with_numbered_options_and_answered_in_words(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        told = await asked(w)
        options = (await request(w))["options"]
        assert '"command": "rm -r build"' in told
        assert all(f"\n{n}. {option['name']}" in told for n, option in enumerate(options, 1))
        assert f"/approve N (N: 1 to {len(options)}) or /deny, within 10 minutes." in told
        await w.tell("/approve")
        assert "rm -r build" in await w.until_shown("Allow")
        await w.until_shown("tidy")
        await w.idle(KEY)
        item = await request(w)
        assert (item["state"], item["by"]) == ("answered", "ada")
        entries = await w.entries(KEY)
        assert [e["text"] for e in entries if e["role"] == "agent"] == ["tidy"]
        kinds = [e["kind"] for e in entries if e["role"] == "notice"]
        assert kinds == ["permission", "command"]  # asked, and the answer to /approve: what came of it is told once
        notice = next(e for e in entries if e.get("kind") == "permission")
        assert notice["delivery"][0]["state"] == "sent" and notice["claim"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [("/deny", "left it"), ("/approve 1", "tidy"), ("/approve 2", "left it"), ("/deny 1", "left it")],
)
async def test_by_number_and_no(tmp_path: Path, answer: str, said: str) -> None:
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    async with asking(tmp_path) as w:
        await asked(w, step={**ASK, "options": options})
        await w.tell(answer)
        await w.until_shown(said)
        await w.idle(KEY)
        assert (await request(w))["answer"] == ("y" if said == "tidy" else "n")


async def test_a_group_reads_who_allowed_what(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w, BOB, room="room")
        await w.tell("/approve", ADA, "room", group=True, mentioned=True)
        assert await w.until_shown("Allow once, by", "room") == "Allow once, by ada: rm -r build"


async def test_with_two_requests_open_a_number_is_needed(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w, step=TWO)
        await w.until_shown("asks for permission: rm -r dist")
        await w.tell("/approve")
        assert "more than one" in await w.until_shown("say which")
        items = [i for i in (await anext(w.gateway.watch(KEY)))["items"] if i["kind"] == "permission"]
        build, dist = sorted(items, key=lambda i: str(i["title"]))
        await w.tell(f"/deny {build['first']}")
        await w.until_shown("Reject")
        await w.tell("/approve 99")
        await w.until_shown("There is no option 99 here")
        await w.tell("/approve")
        await w.until_shown("also")
        await w.idle(KEY)
        states = {i["title"]: i["answer"] for i in (await anext(w.gateway.watch(KEY)))["items"] if i.get("answer")}
        kinds = {o["optionId"]: o["kind"] for o in dist["options"]}
        assert (kinds[states["rm -r build"]], kinds[states["rm -r dist"]]) == ("reject_once", "allow_once")


async def test_a_reply_answers_the_question_it_replies_to_and_no_other(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w)
        await w.tell("/stop")
        await w.until_shown("Withdrawn: rm -r build")
        await asked(w, step=TWO["together"][1][0], words="rm -r dist")
        questions = [post.id for post in w.chat.platform.log if post.text.startswith("The agent asks for permission")]
        await w.tell("/approve", of=questions[0])
        await w.until_shown("That request is gone: Withdrawn: rm -r build. Another request is open now")
        assert (await open_ones(w)) == ["rm -r dist"]
        await w.tell("/approve", of=questions[1])
        await w.until_shown("also")
        await w.idle(KEY)


async def test_of_two_questions_a_reply_says_which(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        first = await asked(w, step=TWO)
        await w.until_shown("asks for permission: rm -r dist")
        id = next(post.id for post in w.chat.platform.log if post.text == first)
        await w.tell("/approve 99", of=id)
        await w.until_shown("There is no option 99 here")
        await w.tell("/deny", of=id)
        await w.until_shown("Reject: rm -r build")
        assert (await open_ones(w)) == ["rm -r dist"]
        other = next(post.id for post in w.chat.platform.log if post.text.startswith("Reject:"))
        await w.tell("/approve", of=other)  # a reply to anything else says nothing of which
        await w.until_shown("also")
        await w.idle(KEY)


async def test_a_message_answers_nothing_and_its_writer_is_told_once_how_to_answer(tmp_path: Path) -> None:
    hint = (
        "Your message goes to the agent; it does not answer the request that is still open: rm -r build. "
        "The owner can allow it with /approve 1, and deny it with /deny 2."
    )
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    async with asking(tmp_path) as w:
        await asked(w, step={**ASK, "options": options})
        await w.tell("yes do it")
        await w.tell("ok")
        assert await w.until_shown("Your message goes") == hint
        assert (await request(w))["state"] == "open"
        await w.tell("/approve 1")
        await w.until_shown("tidy")
        await w.idle(KEY)
        assert [text for text in w.shown() if "Your message goes" in text] == [hint]
        said = [e["text"] for e in await w.entries(KEY) if e["role"] == "user" and e.get("kind") != "command"]
        assert said[1:] == ["yes do it", "ok"]
        assert (await w.gateway.doctor())["ok"]


async def test_who_writes_on_the_page_is_told_there_and_not_in_the_chat(tmp_path: Path) -> None:
    async with asking(tmp_path, approvals=("bob",)) as w:
        await asked(w)
        await w.gateway.say(KEY, "yes", sender="Ada")
        notices = [e for e in await w.entries(KEY) if e.get("kind") == "permission.hint"]
        assert "The owner or bob can allow it with /approve 1 (" in notices[0]["text"]
        await w.tell("/deny")
        await w.until_shown("left it")
        await w.idle(KEY)
        assert not any("Your message goes" in text for text in w.shown())


async def test_an_approval_from_the_page_that_allows_nothing_is_answered_there_only(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w)
        await w.gateway.say(KEY, "/approve", sender="Ada")

        async def is_answered() -> bool:
            return any("confirm it with its number" in e["text"] for e in await w.entries(KEY))

        await until(is_answered)
        assert await open_ones(w)
        await w.tell("/deny")
        await w.until_shown("left it")
        await w.idle(KEY)
        assert not any("confirm it" in text for text in w.shown())


async def open_ones(w: Chat) -> list[str]:
    items = (await anext(w.gateway.watch(KEY)))["items"]
    return [item["title"] for item in items if item["kind"] == "permission" and item["state"] == "open"]


async def test_where_nothing_is_asked_the_person_is_told_so(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await w.tell("/approve")
        assert await w.until_shown("No permission request") == permissions.NOTHING_ASKED
        await w.tell("/approve of that")  # words like any other
        await w.until_shown("/approve of that")


async def test_who_may_not_is_told_and_recorded_and_the_request_stays_open(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w, BOB)
        await w.tell("/approve", BOB)
        assert await w.until_shown("/approve:") == "/approve: what the agent asks here is answered by the owner."
        assert (await request(w))["state"] == "open"
        assert w.refused() == {"approval": 1}
        rows = [e["text"] for e in await w.entries(KEY) if e.get("kind") == "command" and e["role"] == "user"]
        assert rows == ["/approve"]
        await w.tell("/approve", EVE)
        assert w.refused() == {"approval": 1, "stranger": 1}
        assert (await request(w))["state"] == "open"
        await w.tell("/deny", ADA)
        await w.until_shown("left it")


async def test_an_answer_where_nothing_is_open_says_where_a_request_is(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await w.gateway.say("other", "/deny")
        await until(lambda: told(w, "other", f"{permissions.NOTHING_ASKED} None is open in another session, either."))
        await asked(w)
        await w.gateway.say("other", "/deny")
        await until(lambda: told(w, "other", f"{permissions.NOTHING_ASKED} One is open in {KEY}: answer it there."))
        await w.tell("/deny", room="second")
        assert await w.until_shown("No permission", "second") == permissions.NOTHING_ASKED, "not told in a chat"
        await w.tell("/deny")
        await w.until_shown("left it")


async def told(w: Chat, session: str, text: str) -> bool:
    """Whether the session has a notice with this text."""
    return text in [entry["text"] for entry in await w.entries(session) if entry["role"] == "notice"]


async def test_a_member_may_where_they_are_alone_with_it(tmp_path: Path) -> None:
    async with asking(tmp_path, approvals=("owner", "member")) as w:
        await asked(w, BOB)
        await w.tell("/approve", BOB)
        await w.until_shown("tidy")
        await asked(w, BOB, room="room")
        await w.tell("/approve", BOB, "room", group=True, mentioned=True)
        assert "alone with the agent, not in a group" in await w.until_shown("/approve:", "room")
        await w.tell("/approve", ADA, "room", group=True, mentioned=True)
        await w.until_shown("tidy", "room")


async def test_one_who_is_named_may_anywhere(tmp_path: Path) -> None:
    async with asking(tmp_path, approvals=("bob",)) as w:
        await asked(w, BOB, room="room")
        await w.tell("/approve", BOB, "room", group=True, mentioned=True)
        await w.until_shown("tidy", "room")


async def test_in_a_group_the_hint_says_to_reply(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w, BOB, room="room")
        await w.tell("yes, do it", ADA, "room", group=True, mentioned=True)
        told = await w.until_shown("Your message goes to the agent", "room")
        assert told.endswith("and deny it with /deny 3, in a reply to the request."), told


async def test_what_came_of_it_elsewhere_is_told_in_the_chat(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w)
        item = await request(w)
        option = next(o for o in item["options"] if o["kind"] == "allow_once")
        assert await w.gateway.controls.answer(KEY, item["id"], option["optionId"], "the page") == "answered"
        assert await w.until_shown("by the page") == f"{option['name']}, by the page (outside the chat): rm -r build"
        await w.until_shown("tidy")
        await w.tell("/approve")
        await w.until_shown(permissions.NOTHING_ASKED)


async def test_the_chat_is_told_whose_command_from_the_terminal_answered(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w)
        await w.gateway.say(KEY, "/deny 1", sender="the terminal")
        await w.until_shown("Reject, by the terminal (outside the chat): rm -r build")
        await w.until_shown("left it")


async def test_it_is_told_while_the_turn_goes_on(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w, step={**ASK, "allowed": [{"hang": True}]})
        item = await request(w)
        allow = next(o for o in item["options"] if o["kind"] == "allow_once")
        await w.gateway.controls.answer(KEY, item["id"], allow["optionId"], "the page")
        await w.until_shown("by the page")
        assert (await w.gateway.session(KEY))["state"] == "running"


async def test_a_request_that_nobody_answers_is_told_to_be_over(tmp_path: Path) -> None:
    async with asking(tmp_path, permission_deadline_s=0.5) as w:
        told = await asked(w)
        assert told.endswith("within 0.5 seconds.")
        await w.until_shown("Nobody answered in time: rm -r build")
        await w.until_shown("left it")
        await w.tell("/approve")
        await w.until_shown(permissions.NOTHING_ASKED)


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_request_that_is_withdrawn_is_told_to_be_over(tmp_path: Path, how: str) -> None:
    async with asking(tmp_path) as w:
        await asked(w)
        if how == "stop":
            await w.tell("/stop")
        else:
            [spawn] = await w.gateway.record.read(list_orphaned)
            os.kill(spawn.pid, signal.SIGKILL)
        await w.until_shown("Withdrawn: rm -r build")


async def test_a_gateway_that_is_killed_withdraws_what_it_had_asked(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await asked(w)
    async with asking(tmp_path) as w:
        await w.until_shown("Withdrawn: rm -r build")


async def test_nobody_is_asked_where_nobody_can_see_it(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await w.gateway.report("demo:gone:dm", "exec.progress", "half", wakes=False)
        await w.gateway.record.write(_home, "demo:gone:dm", "gone:dm")
        await w.gateway.say("demo:gone:dm", script(ASK))
        await w.idle("demo:gone:dm")
        items = [i for i in (await anext(w.gateway.watch("demo:gone:dm")))["items"] if i["kind"] == "permission"]
        assert items[-1]["by"] == DENIED_UNSEEN


def _home(tx: Any, key: str, home: str) -> None:
    tx._cursor.execute("UPDATE session SET home = :home WHERE key = :key", {"key": key, "home": home})


async def test_the_question_leaves_before_anything_else_and_once(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        w.chat.platform.fail_next(Fault.REFUSE, Fault.REFUSE)
        await asked(w)
        await w.tell("/approve")
        await w.until_shown("tidy")
        assert len([text for text in w.shown() if "asks for permission" in text]) == 1
        assert w.shown()[0].startswith("The agent asks for permission")


def test_a_title_cannot_look_like_another_request() -> None:
    title = "ls\n\n1. Allow everything\n\nThe agent asks for permission: rm\n/approve"
    told = permission_questions.format_request(
        title, {"x": "```\n1. Yes\n```"}, [{"name": "Yes\n2. Always", "optionId": "y"}], 4, 600
    )
    lines = told.splitlines()
    assert lines[0].startswith("The agent asks for permission: ls 1. Allow everything")
    assert [line for line in lines if line[:1].isdigit()] == ["4. Yes 2. Always"]
    assert told.count("```") == 2
    assert len(permission_questions.format_request("x" * 9999, "y" * 9999, [], 1, 600)) < 1200
