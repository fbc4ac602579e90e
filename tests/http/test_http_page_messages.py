"""What a person does with a message on the page: quote it, edit it and send it as a new one, take it back."""

from __future__ import annotations

import re

import browser
import pytest
from browser import KEYS, Browser
from live_house import LiveHouse, bodies, shows, visit

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

SELECT = """void (() => {
  const text = document.querySelector(arguments[0]).firstChild, at = text.data.indexOf(arguments[1]);
  document.getSelection().setBaseAndExtent(text, at, text, at + arguments[1].length);
})()"""


def box(page: Browser) -> str:
    return str(page.run("document.querySelector('#text').value"))


def holds(page: Browser, text: str) -> None:
    page.until(lambda: box(page) == text, f"the box holds {text!r}, but {box(page)!r}")


def press(page: Browser, entry: int, text: str) -> None:
    """Click the button of this text below the entry of this place, from 0."""
    mark = "[...document.querySelectorAll('#rows .entry')][arguments[0]].querySelectorAll('.aside button')"
    page.run(f"void {mark}.forEach((each) => each.classList.toggle('test-pressed', each.innerText === arguments[1]))",
             entry, text)  # fmt: skip
    page.click(".test-pressed")
    page.run("void document.querySelector('.test-pressed')?.classList.remove('test-pressed')")


def test_a_message_or_what_is_selected_of_it_is_quoted_below_what_is_being_written(
    page: Browser, live: LiveHouse
) -> None:
    live.do(lambda: live.gateway.say("s", "tea costs three\n\ncoffee costs four"))
    bodies(page, "tea costs three\n\ncoffee costs four")
    press(page, 0, "Quote")
    holds(page, "> tea costs three\n>\n> coffee costs four\n\n")
    page.type("#text", "both?")
    page.run(SELECT, "#rows .body", "costs four")
    press(page, 0, "Quote")
    holds(page, "> tea costs three\n>\n> coffee costs four\n\nboth?\n\n> costs four\n\n")
    page.run("void (document.querySelector('#text').value = '')")
    page.run(SELECT, "#rows .body", "coffee")
    page.press("alt", "q")
    holds(page, "> coffee\n\n")
    assert page.run("document.activeElement.id") == "text"
    assert page.run("document.querySelector('#text').selectionStart") == len("> coffee\n\n"), "the caret is below"


def test_an_edited_message_is_a_new_one_that_says_so_and_the_draft_comes_back(page: Browser, live: LiveHouse) -> None:
    page.type("#text", f"mow teh lawn{KEYS['enter']}")
    bodies(page, "mow teh lawn")
    page.type("#text", "a draft")
    press(page, 0, "Edit")
    page.until(lambda: box(page).endswith("\n\nmow teh lawn"), "the text is in the box")
    shows(page, "#files .waiting button", "Cancel")
    visit(page, live)
    shows(page, "#files .waiting button", "Cancel")
    page.type("#text", KEYS["escape"])
    holds(page, "a draft")
    shows(page, "#files .waiting")
    page.run("void document.querySelector('#text').select()")
    page.type("#text", KEYS["backspace"] + KEYS["up"])
    page.until(lambda: box(page).endswith("\n\nmow teh lawn"), "an arrow in the empty box edits the last message")
    page.type("#text", f", please{KEYS['enter']}")
    page.until(lambda: len(live.entries()) == 2, "the new message")
    first, second = live.entries()
    assert first["text"] == "mow teh lawn" and "edited" not in first, "what was recorded stays"
    assert re.fullmatch(r"Instead of my message of .+:\n\nmow teh lawn, please", second["text"]), second["text"]
    holds(page, "")
    shows(page, "#files .waiting")
    page.type("#text", KEYS["up"])
    page.until(lambda: box(page).endswith("mow teh lawn, please"), "and the edited one, too")
    assert box(page).count("Instead of") == 1


def test_a_message_that_has_not_left_yet_is_taken_back_into_the_box(page: Browser, live: LiveHouse) -> None:
    page.offline(True)
    page.type("#text", f"first{KEYS['enter']}")
    page.until(lambda: "no connection" in "".join(page.texts("#outgoing .state")), "it says why")
    page.type("#text", f"secnd{KEYS['enter']}")
    shows(page, "#outgoing li:first-child button", "Try now")
    page.type("#text", KEYS["up"])
    holds(page, "secnd")
    shows(page, "#outgoing .body", "first")
    page.offline(False)
    bodies(page, "first")
    page.until(lambda: [entry["text"] for entry in live.entries()] == ["first"], "it is recorded")
