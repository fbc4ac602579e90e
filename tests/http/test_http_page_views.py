"""The page's views: what needs somebody is answered in place, over all sessions."""

from __future__ import annotations

import browser
import pytest
from browser import Browser
from live_house import OPTIONS, LiveHouse, shows

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

CHANGE = {"type": "diff", "path": "deploy.sh", "oldText": "old\n", "newText": "new\n"}
COMMAND = {"command": "./deploy.sh", "to": "shop"}
DRINKS = [{"optionId": name, "name": name, "kind": "answer"} for name in ("Tea", "Coffee")]


def need(why: str) -> str:
    return f"#needs-list [data-why={why}]"


def test_what_needs_somebody_is_answered_in_place_and_a_row_says_how_it_ended(page: Browser, live: LiveHouse) -> None:
    agent = live.begin("deploy")
    live.do(lambda: agent.ask("Deploy it?", OPTIONS, rawInput=COMMAND, content=[CHANGE]))
    asks = live.script("asks")
    live.do(lambda: asks.item("ask", "Tea?\n1. Tea\n2. Coffee", live=True, state="open", options=DRINKS, at=1))
    failing = live.begin("fails")
    live.do(lambda: failing.end("error", "no credit left"))
    live.do(lambda: live.world.hold("one two three four five six"))

    page.until(lambda: page.run("document.title") == "(5) s · Semel", "the title counts them")
    page.click("#needs")
    page.until(lambda: page.run("document.title") == "(5) Needs you · Semel", "the title of the view")
    page.until(lambda: len(page.texts("#needs-list > li")) == 4, "the rows")
    assert page.run("document.activeElement.innerText") == "Needs you"
    assert page.run("getComputedStyle(document.querySelector('#text')).visibility") == "hidden", "out of reach"

    shows(page, f"{need('approval')} .input", "./deploy.sh\nto: shop")
    shows(page, f"{need('approval')} .diff pre", "- old\n+ new")
    page.click(f"{need('approval')} .allow")
    shows(page, f"{need('approval')} .outcome", "You: Allow once")
    assert agent.answers == {"1": "y"}

    shows(page, f"{need('question')} .body", "Tea?")
    shows(page, f"{need('question')} .options button", "Tea", "Coffee")
    shows(page, f"{need('failed')} .text", "no credit left")
    page.click(f"{need('failed')} .options button")
    page.until(lambda: failing.prompts == 2, "the turn runs again")

    page.run("void document.querySelector(arguments[0]).focus()", f"{need('question')} .options button")
    live.do(lambda: live.gateway.say("asks", "Rather water.", sender="Ann"))
    shows(page, f"{need('question')} .outcome", "answered · Ann")
    assert page.texts(f"{need('question')} button") == []
    assert page.run("document.activeElement.hash") == "#/s/asks", "focus is not lost with its button"

    shows(page, f"{need('held')} .decide > button", "Resend all 2", "All 2 arrived", "Drop all 2")
    page.click(f"{need('held')} .decide > button:nth-of-type(2)")
    shows(page, f"{need('held')} .outcome", "You said that it arrived.")
    page.until(lambda: page.texts("#needs-list > li") == [], "rows that are over go")
    shows(page, "#view .hint", "Nothing needs you.")
