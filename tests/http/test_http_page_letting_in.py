"""People and channels on the page: who may talk, who was refused, codes; and names that would like to be more."""

from __future__ import annotations

import browser
import pytest
from browser import KEYS, Browser
from live_house import LiveHouse, shows, visit

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

COUNTS = {"accepted": 4, "duplicate": 0, "conflict": 0, "quarantined": 0}
CHAT = {
    "name": "matrix", "kind": "matrix", "safety": "idempotent", "agent": "demo", "state": "online", "people": True,
    "since": 1_790_000_000_000, "counts": COUNTS, "refused": {"stranger": 2},
}  # fmt: skip
HOOK = {**CHAT, "name": "hook", "kind": "webhook", "people": False, "state": "offline", "error": "it is <b>gone</b>"}
EVIL = "<img src=x onerror=\"document.title='evil'\">\u202egpj." + "W" * 10_000


def opened(page: Browser, live: LiveHouse) -> None:
    live.gateway.channels = [CHAT, HOOK]
    visit(page, live)
    page.click("#people-button")
    page.until(lambda: page.texts("#people-channels li"), "the list")


def at(action: str) -> str:
    return f"#people [data-at='{action}']"


def test_channels_people_and_the_refused_are_shown_and_a_channel_that_is_silent_says_why(
    page: Browser, live: LiveHouse
) -> None:
    opened(page, live)
    told = page.texts("#people-channels li")
    assert "4 heard · 2 refused" in told[0] and "online" in told[0]
    assert "offline" in told[1] and "it is <b>gone</b>" in told[1]
    shows(page, "#people-known .account", "matrix:@ada:example.org")
    assert "in semel.toml" in page.texts("#people-known")[0] and not page.texts("#people-known button")
    options = page.run("[...document.querySelector('#pair-channel').options].map((one) => one.value)")
    assert options == ["matrix"], "a webhook has no people"
    page.type("#pair-name", KEYS["escape"])
    page.until(lambda: not page.run("document.querySelector('#people').open"), "it is closed")
    assert page.run("document.activeElement.id") == "people-button"


def test_a_stranger_is_let_in_and_put_out_again_once_that_is_confirmed(page: Browser, live: LiveHouse) -> None:
    opened(page, live)
    page.click(at("matrix:@eve guest"))
    page.until(lambda: "matrix:@eve is somebody (guest) now." in page.texts("#people-told"), "it is told")
    assert live.gateway.people.accounts["matrix:@eve"] == ("somebody", "guest", "added")
    shows(page, "#people-quiet", "Nobody, since the gateway started.")
    page.run(f'void document.querySelector("{at("matrix:@eve")}").focus()')
    page.type(at("matrix:@eve"), KEYS["enter"])
    page.until(lambda: "Remove it?" in page.texts("#people-known")[0], "the question")
    assert page.run("document.activeElement.innerText") == "Keep", "a key that is hit twice removes nobody"
    page.click(at("matrix:@eve sure"))
    shows(page, "#people-known .account", "matrix:@ada:example.org")
    assert "matrix:@eve" not in live.gateway.people.accounts


def test_what_cannot_be_done_is_told_in_words(page: Browser, live: LiveHouse) -> None:
    live.gateway.people.strangers = {"matrix:@ada:example.org": "Ada"}
    opened(page, live)
    page.click(at("matrix:@ada:example.org member"))
    shows(page, "#people-wrong", "matrix:@ada:example.org is listed in semel.toml")
    page.errors()  # the browser notes the 409 by itself


def test_a_code_is_shown_once_and_its_use_is_told(page: Browser, live: LiveHouse) -> None:
    opened(page, live)
    page.type("#pair-name", "bob")
    page.click("#pair-make")
    shows(page, "#code-text", "ABCD-2345")
    assert "bob sends it to this gateway's account on matrix" in (page.text("#code-how") or "")
    page.until(lambda: "expires in 9:5" in (page.text("#code-left") or ""), "it runs down")
    live.do(lambda: live.gateway.people.codes[0].update(state="used", account="matrix:@bob"))
    shows(page, "#code-over", "It was used: matrix:@bob may talk now.")
    page.click("#pair-make")
    shows(page, "#code-text", "ABCD-2345")
    page.click("#people [data-close]")
    page.click("#people-button")
    page.until(lambda: "waits to be sent" in (page.text("#pair-open") or ""), "only that there is one")
    assert page.run("document.body.innerHTML.includes('ABCD-2345')") is False


def test_names_of_strangers_senders_and_files_are_text_and_stay_in_their_place(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    files = [{"id": "a" * 64, "name": EVIL, "mime": "text/html", "size": 3}]
    said = live.do(lambda: script.entry("user", "hello", event=1, sender=EVIL, files=files))
    quote = {"of": said, "quote": EVIL, "whose": EVIL}
    live.do(lambda: script.entry("user", "well", event=2, sender="Ann", **quote))
    live.do(lambda: script.held(script.entry("agent", "x"), EVIL, EVIL))
    live.do(lambda: script.state("idle", title=EVIL))
    live.gateway.people.strangers = {f"matrix:{EVIL}": EVIL}
    opened(page, live)
    page.until(lambda: page.texts("#people-strangers .name"), "the stranger")
    for css in ("#people-strangers .name", "#rows .who", "#rows .file", "#rows .quoted b", "#rows .fate b", "#title"):
        told = page.run("document.querySelector(arguments[0]).textContent", css)
        assert told.startswith("<img src=x") and "<U+202E>gpj." in told, css
    assert page.run("document.querySelectorAll('#rows img, #people img').length") == 0
    wider = "[...document.querySelectorAll(arguments[0])].map((n) => n.scrollWidth - n.clientWidth)"
    assert page.run(wider, "html, #side, #scroller, #people-body") == [0, 0, 0, 0]


def test_a_message_of_which_several_parts_are_held_is_decided_at_once_or_one_by_one(
    page: Browser, live: LiveHouse
) -> None:
    script = live.script()
    seq = live.do(lambda: script.entry("agent", "one two three"))
    first = live.do(lambda: script.held(seq, "telegram:7", "the connection broke", ("one", "two", "three")))
    shows(page, "#rows .decide > button", "Resend all 3", "All 3 arrived", "Drop all 3")
    page.click("#rows .singly summary")
    shows(page, "#rows .singly .text", f"p{first}: one", f"p{first + 1}: two", f"p{first + 2}: three")
    page.click("#rows .singly li button:nth-of-type(2)")
    shows(page, "#rows .fate", "telegram:7 may have arrived (2 of 3 parts)", "telegram:7 delivered (1 of 3 parts)")
    shows(page, "#rows .singly .text", f"p{first + 1}: two", f"p{first + 2}: three")
    assert page.run("document.activeElement.tagName") == "BUTTON", "focus is not lost with its button"
    page.click("#rows .decide > button")
    shows(page, "#rows .fate", "telegram:7 waiting to leave (2 of 3 parts)", "telegram:7 delivered (1 of 3 parts)")
    assert [live.gateway.outbox[first + n]["state"] for n in range(3)] == ["sent", "queued", "queued"]


def test_a_request_that_was_sent_to_a_chat_is_told_in_one_line_beside_its_buttons(
    page: Browser, live: LiveHouse
) -> None:
    script = live.script()
    live.do(lambda: script.entry("notice", "The agent asks for permission: rm -r build", kind="permission"))
    shows(page, "#rows .asked summary", "The question, as it was sent")
    assert page.texts("#rows .asked .body") == []
    page.click("#rows .asked summary")
    shows(page, "#rows .asked .body", "The agent asks for permission: rm -r build")
