"""The page in a real browser: what is said is sent once, and what is asked is decided once."""

from __future__ import annotations

import asyncio
from typing import Any

import browser
import pytest
from browser import KEYS, Browser
from gateway_house import MODES
from live_house import OPTIONS, LiveHouse, bodies, shows, visit, wait_live

from semel.gateway.inbound import inbox
from semel.gateway.ports import Heard
from semel.testing.channels import Fault

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")


# ---------------------------------------------------------------- speaking


def test_a_message_is_shown_once_while_it_is_sent_and_after_a_reload(page: Browser, live: LiveHouse) -> None:
    page.type("#text", f"hello{KEYS['enter']}")
    bodies(page, "hello")
    page.until(lambda: len(page.texts("#outgoing li")) == 0, "the message is in the transcript")
    assert page.run("document.querySelector('#text').value") == ""
    visit(page, live)
    bodies(page, "hello")


def test_a_session_that_is_not_there_yet_is_made_and_watched_with_its_first_message(
    page: Browser, live: LiveHouse
) -> None:
    page.errors()  # what an earlier page complained of when its gateway ended
    page.run("void (location.hash = '#/s/fresh')")
    shows(page, "#link", "new")
    page.type("#text", f"hello{KEYS['enter']}")
    bodies(page, "hello")
    script = live.script("fresh")
    live.do(lambda: script.entry("agent", "hello, you"))
    bodies(page, "hello", "hello, you")
    assert [message for message in page.errors() if "status of 404" not in message] == []


def test_enter_sends_and_shift_enter_is_a_new_line(page: Browser, live: LiveHouse) -> None:
    page.type("#text", f"one{KEYS['shift']}{KEYS['enter']}{KEYS['shift']}two")
    assert page.run("document.querySelector('#text').value") == "one\ntwo"
    page.type("#text", KEYS["enter"])
    bodies(page, "one\ntwo")


def test_a_message_whose_answer_is_lost_is_sent_again_and_heard_once(page: Browser, live: LiveHouse) -> None:
    heard: list[Heard] = []
    real = live.gateway.say

    async def say_and_lose(*args: Any, **kwargs: Any) -> Heard:
        heard.append(await real(*args, **kwargs))
        if len(heard) == 1:
            raise RuntimeError("the answer is lost on its way")
        return heard[-1]

    live.do(lambda: setattr(live.gateway, "say", say_and_lose))
    page.type("#text", f"only once{KEYS['enter']}")
    page.until(lambda: len(heard) == 2, "a retry")
    bodies(page, "only once")
    assert [one.status for one in heard] == ["accepted", "duplicate"]
    page.until(lambda: page.run("Object.keys(localStorage).length") == 0, "nothing is kept after the answer")


def test_what_is_said_without_a_connection_is_sent_when_there_is_one(page: Browser, live: LiveHouse) -> None:
    page.offline(True)
    page.type("#text", f"first{KEYS['enter']}")
    page.type("#text", f"second{KEYS['enter']}")
    shows(page, "#outgoing .body", "first", "second")
    page.until(lambda: "no connection" in page.texts("#outgoing .state")[0], "it says why")
    page.offline(False)
    bodies(page, "first", "second")
    page.until(lambda: page.texts("#outgoing li") == [], "both are in the transcript")
    assert [entry["text"] for entry in live.entries()] == ["first", "second"]


def test_a_message_survives_a_page_that_is_closed_before_its_answer(page: Browser, live: LiveHouse) -> None:
    """An older message of the same words is not taken for it."""
    live.do(lambda: live.gateway.say("s", "do not lose me"))
    bodies(page, "do not lose me")
    live.shut()
    page.type("#text", f"do not lose me{KEYS['enter']}")
    shows(page, "#outgoing .body", "do not lose me")
    page.go("about:blank")
    live.open()
    visit(page, live)
    bodies(page, "do not lose me", "do not lose me")
    page.until(lambda: page.texts("#outgoing li") == [], "it is in the transcript")


def test_a_stream_that_is_faster_than_the_answer_shows_nothing_twice(page: Browser, live: LiveHouse) -> None:
    real, gate = live.gateway.say, live.do(asyncio.Event)

    async def say_slowly(*args: Any, **kwargs: Any) -> Heard:
        heard = await real(*args, **kwargs)
        await gate.wait()
        return heard

    live.do(lambda: setattr(live.gateway, "say", say_slowly))
    page.type("#text", f"quick{KEYS['enter']}")
    page.until(lambda: len(page.texts("#rows .entry")) == 1, "the entry, before the answer")
    bodies(page, "quick")
    live.do(gate.set)
    page.until(lambda: page.run("Object.keys(localStorage).length") == 0, "the answer")
    bodies(page, "quick")


def test_an_older_message_that_changes_is_not_taken_for_the_one_on_its_way(page: Browser, live: LiveHouse) -> None:
    real, gate = live.gateway.say, live.do(asyncio.Event)

    async def hear_late(*args: Any, **kwargs: Any) -> Heard:
        await gate.wait()
        return await real(*args, **kwargs)

    script = live.script()
    live.do(lambda: script.entry("user", "yes", event=77))
    bodies(page, "yes")
    live.do(lambda: setattr(live.gateway, "say", hear_late))
    page.type("#text", f"yes{KEYS['enter']}")
    bodies(page, "yes", "yes")
    live.do(lambda: script.set(1, sender="Ann"))
    page.until(lambda: page.texts("#rows .who") == ["Ann"], "the change")
    bodies(page, "yes", "yes")
    live.do(gate.set)
    page.until(lambda: len(page.texts("#rows .entry")) == 2, "both are in the transcript")
    bodies(page, "yes", "yes")


def test_the_same_words_from_two_people_are_two_messages(page: Browser, live: LiveHouse) -> None:
    page.type("#text", f"ha{KEYS['enter']}")
    bodies(page, "ha")
    live.do(lambda: live.gateway.say("s", "ha", sender="Bob"))
    bodies(page, "ha", "ha")


def test_a_refused_message_says_why_and_can_be_edited_or_sent_again(
    page: Browser, live: LiveHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MAX_TEXT_CHARS", 1000)  # Chromium takes seconds to lay out a million
    page.run("void (document.querySelector('#text').value = 'x'.repeat(1001))")
    page.run("void document.querySelector('#composer').requestSubmit()")
    page.until(lambda: any("not sent: text: at most" in t for t in page.texts("#outgoing .state")), "the reason")
    page.click("#outgoing .options button:nth-of-type(2)")
    page.until(lambda: page.run("document.querySelector('#text').value.length") == 1001, "the text is back")
    assert page.texts("#outgoing li") == []
    page.run("void document.querySelector('#composer').requestSubmit()")
    shows(page, "#outgoing .options button", "Send again", "Edit", "Discard")
    monkeypatch.setattr(inbox, "MAX_TEXT_CHARS", 1001)
    page.click("#outgoing .options button")
    bodies(page, "x" * 1001)
    assert len(live.entries()) == 1
    page.errors()  # the browser notes the 400 by itself


def test_a_draft_stays_with_its_session(page: Browser, live: LiveHouse) -> None:
    live.script("other")
    page.type("#text", "half a thou")
    page.run("void (location.hash = '#/s/other')")
    page.until(lambda: page.run("document.querySelector('#text').value") == "", "another draft")
    visit(page, live)
    assert page.run("document.querySelector('#text').value") == "half a thou"


# ---------------------------------------------------------------- deciding


def test_a_permission_request_is_answered_here_and_seen_as_answered(page: Browser, live: LiveHouse) -> None:
    agent = live.begin()
    live.do(lambda: agent.ask("Run it?", OPTIONS))
    shows(page, "#rows .request button", *(option["name"] for option in OPTIONS))
    page.press("alt", "a")
    page.press("enter")
    shows(page, "#rows .tool .state", "waiting · Allow once · You")
    page.until(lambda: page.run("document.activeElement.id") == "text", "the focus is in the message box")
    assert agent.answers == {"1": "y"}
    assert page.texts("#rows .request button") == []


def test_an_approved_command_without_output_is_one_row_that_says_so(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    command = {"command": "touch marker", "cwd": "/tmp"}
    call = {"title": "touch marker", "tool_kind": "execute", "input": command}
    tool = live.do(lambda: script.item("tool", live=True, status="running", **call))
    about = {"title": "touch marker", "input": command, "options": OPTIONS}
    request = live.do(lambda: script.item("permission", live=True, state="open", **about))
    live.do(lambda: script.item("tool", live=True, status="running", **call))
    shows(page, "#rows .request .label", "The agent asks for permission")
    shows(page, "#rows .request .input", "touch marker\ncwd: /tmp")
    page.run("document.querySelector('#rows .request .allow').focus()")
    live.do(lambda: script.set_item(request, live=False, state="answered", answer="y", by="owner"))
    shows(page, "#rows .tool .state", "running · Allow once · You", "running")
    assert page.run("document.activeElement.tagName") == "SUMMARY", "focus is not lost with its row"
    live.do(lambda: script.set_item(tool, live=False, status="done", exit=0))
    shows(page, "#rows .tool .state", "done, no output · Allow once · You", "running")
    assert page.run("[...document.querySelectorAll('#rows > li')].filter((row) => row.offsetHeight).length") == 2
    visit(page, live)
    shows(page, "#rows .tool .state", "done, no output · Allow once · You", "running")


def test_a_message_closes_the_buttons_of_a_question(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    tea = [{"optionId": "Tea", "name": "Tea", "kind": "answer"}]
    live.do(lambda: script.item("ask", "Tea?\n1. Tea", live=True, state="open", options=tea))
    shows(page, "#rows .request button", "Tea")
    live.do(lambda: live.world.gateway.say("s", "Rather water.", sender="Ann"))
    shows(page, "#rows .request .outcome", "answered · Ann")
    assert page.texts("#rows .request button") == []


def test_of_two_equal_calls_each_shows_the_answer_to_its_own_request(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    for call in ("one", "two"):
        live.do(lambda call=call: script.item("tool", live=True, status="pending", title="make", call=call))
    asked = {"title": "make", "options": OPTIONS, "state": "open"}
    first, second, again = [
        live.do(lambda call=call: script.item("permission", live=True, call=call, **asked))
        for call in ("one", "two", "one")
    ]
    for request, answer in ((first, "y"), (second, "n"), (again, "n")):
        live.do(
            lambda id=request, answer=answer: script.set_item(id, live=False, state="answered", answer=answer, by="me")
        )
    states = ("waiting · Allow once · me", "waiting · Reject · me")
    shows(page, "#rows .tool .state", *states)
    shows(page, "#rows .request:not([hidden]) .outcome", "Reject · me")
    visit(page, live)
    shows(page, "#rows .tool .state", *states)


def test_a_request_that_somebody_else_answered_shows_their_answer(page: Browser, live: LiveHouse) -> None:
    agent = live.begin()
    live.do(lambda: agent.ask("Run it?", OPTIONS))
    shows(page, "#rows .request button", "Allow once", "Reject")
    page.run("document.querySelector('#rows .request .reject').focus()")
    item = live.do(live.world.open_request)
    live.do(lambda: live.gateway.controls.answer("s", item, "n", "Bob"))
    shows(page, "#rows .tool .state", "waiting · Reject · Bob")
    assert page.run("document.activeElement.tagName") == "SUMMARY", "focus is not lost with its button"


def test_an_echo_and_a_held_delivery_are_seen_and_decided(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: script.entry("agent", "hi", echoes=1))
    shows(page, "#rows .mark", "also sent by tool")
    (part,) = live.do(lambda: live.world.hold("hello"))
    visit(page, live, "main:chat:room")
    shows(page, "#rows .decide button", "Resend", "It arrived", "Drop")
    page.click("#rows .decide button:nth-of-type(2)")
    shows(page, "#rows .fate", "chat:room delivered")
    assert live.do(lambda: live.gateway.part(part))["state"] == "sent"


def test_a_held_request_that_is_over_is_not_sent_again(page: Browser, live: LiveHouse) -> None:
    agent = live.begin("main:chat:room")
    live.do(lambda: agent.ask("Run it?", OPTIONS))
    visit(page, live, "main:chat:room")
    buttons = "#rows .decide > button"
    page.until(lambda: str(page.text(buttons)).startswith("Resend all"), "its parts are held")
    live.do(lambda: agent.end())
    page.until(lambda: str(page.text(buttons)).startswith("All"), "what arrived can still be told")
    assert "and what they ask is over." in str(page.text("#rows .decide p"))


def test_a_rejected_delivery_is_sent_again_by_a_button(page: Browser, live: LiveHouse) -> None:
    platform = live.world.channels["chat"].platform
    platform.fail_always(Fault.REJECT)
    (part,) = live.do(lambda: live.world.hold("hello", state="rejected"))
    platform.fail_always(None)
    visit(page, live, "main:chat:room")
    shows(page, "#rows .again button", "Send again", "Drop")
    page.click("#rows .again button")
    shows(page, "#rows .fate", "chat:room delivered")
    assert live.do(lambda: live.gateway.part(part))["state"] == "sent"


def test_a_running_turn_can_be_stopped_and_the_queue_is_shown(page: Browser, live: LiveHouse) -> None:
    assert page.texts("#stop") == []
    live.begin()
    live.do(lambda: [live.gateway.say("s", "one"), live.gateway.say("s", "two", automatic=True)])
    shows(page, "#busy", "working · waiting: 2")
    page.click("#stop")
    page.until(lambda: "You stopped it." in page.texts("#rows .notice .body"), "who stopped it")
    live.do(lambda: live.gateway.controls.stop_turn("s", "the test"))
    page.until(lambda: page.texts("#stop") == [], "no turn, no button")


def test_mode_and_model_are_chosen_in_the_head(page: Browser, live: LiveHouse) -> None:
    live.begin()
    script = live.script()
    live.do(lambda: script.about(modes=MODES, unattended_modes=["code"]))
    page.until(lambda: page.texts("#choices select") != [], "the choice")
    assert "asks nobody for permission" not in page.text("#under")
    assert page.run("[...document.querySelectorAll('#choices option')].map((option) => option.textContent)") == [
        "Ask", "Code (asks nobody)",
    ]  # fmt: skip
    page.run("""(() => { const s = document.querySelector('#choices select'); s.value = 'code';
        s.dispatchEvent(new Event('change')); })()""")
    page.until(lambda: live.session().get("mode") == "code", "the mode")
    page.until(lambda: page.run("document.querySelector('#choices select').value") == "code", "it is shown")
    page.until(lambda: "asks nobody for permission" in page.text("#under"), "what the mode means")
    assert "decides by itself" in page.run("document.querySelector('#under').title")


def test_an_agent_without_tools_is_told_under_the_title(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: script.about(tools=False))
    page.until(lambda: "without Semel's tools" in (page.text("#under") or ""), "it is told")
    assert "what it writes is delivered" in page.run("document.querySelector('#under').title")
    live.do(lambda: script.about(tools=True))
    page.until(lambda: "tools" not in (page.text("#under") or ""), "it is told no more")


def test_a_new_session_begins_with_its_first_message(page: Browser, live: LiveHouse) -> None:
    page.click("#new")
    page.until(lambda: "first message" in (page.text("#welcome") or ""), "the welcome")
    shows(page, "#welcome .tries button", "What can you do?", "What is in this folder?", "Which tools do you have?")
    page.until(lambda: str(live.world.settings.data_dir) in (page.text("#welcome .folder") or ""), "the folder")
    shows(page, "#welcome .link", "Work in another folder", "People and channels")
    page.until(lambda: page.texts("#choices select[name=agent]") != [], "the agents")
    page.run("""(() => { const s = document.querySelector('#choices select'); s.value = 'codex';
        s.dispatchEvent(new Event('change')); })()""")
    title = "document.querySelector('#title').title"
    page.until(lambda: "codex:web:" in page.run(title), "a session with that agent")
    page.type("#text", f"hello there{KEYS['enter']}")
    bodies(page, "hello there")
    wait_live(page)
    rows = asyncio.run_coroutine_threadsafe(live.gateway.sessions(), live.loop).result(20)
    assert rows[0]["key"].startswith("codex:web:") and rows[0]["last"] == "hello there"
    page.until(lambda: any("hello there" in text for text in page.texts("#sessions li")), "the list")
    page.press("alt", "n")
    page.until(lambda: "main:web:" in page.run(title), "a session with the default agent")
