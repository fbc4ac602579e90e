"""The page's views: what needs somebody is answered in place, and the gateway tells its state."""

from __future__ import annotations

import browser
import pytest
from browser import KEYS, Browser
from live_house import OPTIONS, LiveHouse, shows, visit, wait_live

from semel.testing.channels import Fault

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
    live.do(lambda: asks.item("ask", "Tea?\n1. Tea\n2. Coffee", live=True, state="open", options=DRINKS))
    failing = live.begin("fails")
    live.do(lambda: failing.end("error", "no credit left"))
    live.do(lambda: live.world.hold("one two three four five six"))

    page.until(lambda: page.run("document.title") == "(4) s · Semel", "the title counts them")
    page.click("#needs")
    page.until(lambda: page.run("document.title") == "(4) Needs you · Semel", "the title of the view")
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
    page.until(lambda: page.texts(f"{need('failed')} .outcome"), "its row says so, and moves the others no more")

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


def test_the_gateway_tells_its_state_and_what_leaves_and_decides_about_it(page: Browser, live: LiveHouse) -> None:
    agent = live.begin("works")
    live.do(lambda: agent.update("usage_update", used=50, size=200, cost={"amount": 0.1, "currency": "EUR"}))
    live.world.channels["chat"].platform.fail_always(Fault.REJECT)
    live.do(lambda: live.world.hold("hello", state="rejected"))
    live.do(lambda: live.gateway.schedules.add("tea", "Is it time for tea?", every="1h"))

    page.click("#gateway-link")
    page.until(lambda: "25 % of 200 tokens · 0.10 EUR" in "".join(page.texts("#view .process")), "the agent")
    shows(page, "#view .tabs [aria-current]", "Status")
    page.click("#view section:last-of-type button")
    page.until(lambda: "laws hold now" in str(page.text("#view section:last-of-type p")), "the books")
    assert page.run("document.querySelectorAll('#view .laws [data-ok=true]').length") > 20

    page.click("#view .tabs a[href$=outbox]")
    rejected = "#view [data-state=rejected] .facts"
    shows(page, f"{rejected} .text", "hello")
    shows(page, f"{rejected} .options button", "Send again", "Drop", "Why")
    shows(page, "#view h2", "Rejected")
    page.click(f"{rejected} .options button:nth-of-type(2)")
    shows(page, "#view .hint", "Nothing waits to leave, and nothing needs a decision.")
    assert page.run("document.title").endswith("Gateway: Outbox · Semel")

    page.click("#view .tabs a[href$=schedules]")
    shows(page, "#view .facts .text", "Is it time for tea?")
    page.click("#view .facts button:nth-of-type(2)")
    shows(page, "#view .facts button", "Run now", "Resume")
    page.click("#view .tabs a[href$=jobs]")
    shows(page, "#view .hint", "No command runs in the background.")
    page.run("void history.back()")
    shows(page, "#view .tabs [aria-current]", "Schedules")
    page.click("#view .close")
    page.until(lambda: page.run("document.activeElement.id") == "text", "the conversation, ready to write")
    assert page.run("location.hash") == "#/s/s"
    page.go("about:blank")
    page.go(f"{live.server.url}/#gateway/jobs")  # no conversation is open behind it
    shows(page, "#view .hint", "No command runs in the background.")
    page.click("#view .close")
    wait_live(page)
    assert page.run("location.hash").startswith("#/s/")


def test_why_tells_the_story_of_a_message_step_by_step(page: Browser, live: LiveHouse) -> None:
    live.do(lambda: live.world.hold("hello"))
    visit(page, live, "main:chat:room")
    page.click("#rows .agent .why")
    page.until(lambda: page.texts("#story .steps .text") != [], "the steps")
    stages = [stage for stage in page.texts("#story .stage") if stage]
    assert stages == ["Heard e1", "Turn t1", "Decided c1", "Delivery p1", "Turn t1", "Delivery p1"]
    assert page.texts("#story [data-outcome=bad] .text")[-1] == "Held"
    page.type("#story", KEYS["escape"])
    page.until(lambda: not page.run("!!document.querySelector('#story')"), "closed")
    assert page.run("document.activeElement.className") == "tiny why", "the focus is back"
    page.click("#rows .user .why")
    page.until(
        lambda: page.texts("#story .steps .text")[:1] == ["Accepted message at api:main:chat:room without a key: 'go'"],
        "its story",
    )
