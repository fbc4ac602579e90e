"""The page while the agent is busy: what becomes of each message is seen live, and chosen, and moves nobody (Law 8)."""

from __future__ import annotations

import json
import re

import browser
import pytest
from browser import KEYS, Browser
from gateway_house import Script
from live_house import LiveHouse, bodies, shows, visit

from semel.law.wake import Busy

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

FEET = "#rows .entry.user .foot:not(:empty)"
HOW = "document.querySelector('#how')"


def pick(page: Browser, value: str) -> None:
    """Choose in the list, as a keyboard or a mouse does."""
    page.run(f"void (({HOW}.value = {json.dumps(value)}), {HOW}.dispatchEvent(new Event('change')))")


async def taken(script: Script, *seqs: int, **more: object) -> None:
    """A turn takes these messages."""
    for seq in seqs:
        await script.set(seq, waiting=None, **more)


def test_the_place_of_a_message_counts_down_as_the_line_moves(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.begin()
    seqs = [live.do(lambda n=n: script.entry("user", f"m{n}", event=n, waiting="queue")) for n in range(1, 4)]  # type: ignore[misc]
    shows(page, FEET, *(f"queued, {place} in line" for place in ("1st", "2nd", "3rd")))
    page.run(f"void (window.third = document.querySelectorAll('{FEET} .waits')[2])")
    live.do(lambda: taken(script, seqs[0], joined=True))
    shows(page, FEET, "joined the running turn", "queued, 1st in line", "queued, 2nd in line")
    assert page.run(f"window.third === document.querySelectorAll('{FEET} .waits')[1]"), "the same node, other words"
    live.do(lambda: taken(script, *seqs[1:]))
    shows(page, FEET, "joined the running turn")


def test_each_mode_and_an_automatic_message_are_told_apart(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    for number, mode in enumerate(("collect", "interrupt", "steer"), 1):
        live.do(lambda mode=mode, number=number: script.entry("user", mode, event=number, waiting=mode))  # type: ignore[misc]
    live.do(lambda: script.entry("user", "beep", event=9, automatic=True))
    shows(page, FEET, "collecting", "interrupts the running turn", "joins the running turn", "automatic")
    visit(page, live)
    shows(page, FEET, "collecting", "interrupts the running turn", "joins the running turn", "automatic")


def test_a_mode_is_chosen_for_one_message_and_goes_with_it(page: Browser, live: LiveHouse) -> None:
    assert page.texts("#how") == [], "nothing is busy: nothing to choose"
    live.begin()
    page.until(lambda: page.texts("#how") != [], "the choice")
    pick(page, "collect")
    page.type("#text", "one" + KEYS["enter"])
    bodies(page, "go", "one")
    page.type("#text", "two" + KEYS["enter"])
    shows(page, FEET, "collecting", "queued, 2nd in line")
    assert page.run(f"{HOW}.value") == ""


def test_a_message_that_cannot_steer_says_why_it_waits(page: Browser, live: LiveHouse) -> None:
    live.begin()
    page.until(lambda: page.texts("#how") != [], "the choice")
    pick(page, "steer")
    page.type("#text", "blue" + KEYS["enter"])
    shows(page, FEET, "queued, 1st in line: no message can join the turn that runs now")


def test_the_mode_of_all_messages_is_set_and_shown(page: Browser, live: LiveHouse) -> None:
    agent = live.begin()
    page.until(lambda: page.texts("#how") != [], "the choice")
    pick(page, "always steer")
    page.until(lambda: live.session().get("busy") == "steer", "the mode")
    page.until(lambda: page.run(f"{HOW}.selectedOptions[0].label") == "usual: steer", "it is shown")
    live.do(lambda: agent.say("done"))
    live.do(agent.end)
    bodies(page, "go", "done")
    page.until(lambda: page.texts("#stop") == [], "the turn is over")
    assert page.texts("#how") != [], "what is set stays in sight"
    pick(page, "always ")
    page.until(lambda: "busy" not in live.session(), "as configured")
    page.until(lambda: page.texts("#how") == [], "nothing to choose")


def test_who_walks_through_the_list_by_key_sets_nothing_on_the_way(page: Browser, live: LiveHouse) -> None:
    live.begin()
    modes: list[str | None] = []
    set_busy = live.gateway.controls.set_busy

    async def record(session: str, mode: Busy | None) -> None:
        modes.append(mode)
        await set_busy(session, mode)

    live.do(lambda: setattr(live.gateway.controls, "set_busy", record))
    page.until(lambda: page.texts("#how") != [], "the choice")
    page.type("#how", KEYS["down"] * 7)
    assert page.run(f"{HOW}.value") == "always interrupt"
    page.type("#text", "x")
    page.until(lambda: live.session().get("busy") == "interrupt", "set, once the list is left")
    assert modes == ["interrupt"]


def test_a_draft_and_its_cursor_stay_while_the_line_moves(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    page.type("#text", "my draft")
    page.run("void document.querySelector('#text').setSelectionRange(2, 4)")
    width = page.run("document.querySelector('#text').getBoundingClientRect().left")
    live.begin()
    seq = live.do(lambda: script.entry("user", "m", event=1, waiting="queue"))
    shows(page, FEET, "queued, 1st in line")
    live.do(lambda: taken(script, seq))
    shows(page, FEET)
    box = "document.querySelector('#text')"
    assert page.run(f"[{box}.value, {box}.selectionStart, {box}.selectionEnd, document.activeElement.id]") == [
        "my draft", 2, 4, "text",
    ]  # fmt: skip
    assert page.run(f"{box}.getBoundingClientRect().left") == width


def test_a_turn_that_waits_to_be_tried_again_counts_down_and_can_be_stopped(page: Browser, live: LiveHouse) -> None:
    agent = live.begin()
    live.do(lambda: agent.end("error", "529 overloaded, retry after 42 s"))
    page.until(lambda: re.search(r"tried again in 4[01] s$", page.text("#again") or ""), "the count")
    shows(page, "#busy", "the turn failed")
    page.click("#stop")
    page.until(lambda: any("You stopped it." in text for text in page.texts("#rows .notice .body")), "the stop")
    page.until(lambda: page.text("#again") == "", "no turn, no count")


def test_escape_in_the_message_box_stops_the_turn_and_keeps_the_draft(page: Browser, live: LiveHouse) -> None:
    live.begin()
    page.until(lambda: page.run("!document.querySelector('#stop').hidden"), "the stop button")
    page.type("#text", "my draft" + KEYS["escape"])
    page.until(lambda: live.session()["state"] == "idle", "the end of the turn")
    assert page.run("document.querySelector('#text').value") == "my draft"


def test_a_turn_that_failed_or_was_stopped_is_run_again_by_a_button_at_its_notice(
    page: Browser, live: LiveHouse
) -> None:
    script = live.script()
    for number, kind in enumerate(("turn.cancelled", "turn.failed")):
        live.do(lambda kind=kind: script.entry("notice", "It is over.", kind=kind))  # type: ignore[misc]
        page.until(lambda count=number + 1: len(page.texts("#rows .entry.notice")) == count, "the notice")  # type: ignore[misc]
        assert page.texts("#rows .retry") == ["Try again"]
    page.click("#rows li:last-child .retry")
    page.until(lambda: any(entry["text"] == "/retry" for entry in live.entries()), "the command")
    page.until(lambda: page.texts("#rows .retry") == [], "it is no more the last row")
