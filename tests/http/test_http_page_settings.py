"""The page's settings: its colours, density and language stay in the browser that they were chosen in."""

from __future__ import annotations

import browser
import pytest
from browser import Browser
from live_house import OPTIONS, LiveHouse, shows, wait_live

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

GROUND = "getComputedStyle(document.body).backgroundColor"


def choose(page: Browser, name: str, value: str) -> None:
    """Choose in the settings as a person does, with the keyboard or the mouse."""
    if not page.run("document.querySelector('#settings')"):
        page.click("#settings-button")
    page.run(
        "((name, value) => { const select = document.querySelector(`#settings [name=${name}]`);"
        " select.value = value; select.dispatchEvent(new Event('change')); })(...arguments)",
        name,
        value,
    )


def test_colours_and_density_are_changed_at_once_and_stay(page: Browser, live: LiveHouse) -> None:
    light, size = page.run(GROUND), page.run("document.querySelector('#log').offsetHeight")
    choose(page, "theme", "dark")
    assert page.run(GROUND) != light
    with page.looks(dark=True):
        choose(page, "theme", "")
        assert page.run(GROUND) != light, "as the system has it"
        choose(page, "theme", "light")
        assert page.run(GROUND) == light
    choose(page, "density", "compact")
    assert page.run("getComputedStyle(document.querySelector('#log')).fontSize") == "14.5px", size
    page.go("about:blank")
    page.go(f"{live.server.url}/#/s/s")
    wait_live(page)
    assert page.run("{...document.documentElement.dataset}") == {"theme": "light", "density": "compact"}
    page.click("#settings-button")
    assert page.run("[...document.querySelectorAll('#settings select')].map((one) => one.value)") == [
        "light",
        "compact",
        "",
    ]


def test_in_german_the_page_speaks_german_and_people_are_quoted_as_they_spoke(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: script.entry("user", "Show older"))
    live.do(lambda: script.item("permission", live=True, state="open", options=OPTIONS, input={"command": "make"}))
    page.type("#text", "a draft")
    choose(page, "language", "de")
    page.until(lambda: page.run("document.documentElement.lang") == "de", "the page in German")
    wait_live(page)
    shows(page, "#rows .request .label", "Der Agent bittet um Erlaubnis")
    shows(page, "#rows .entry.user .body", "Show older")
    shows(page, "#rows .request button", "Allow once", "Reject")
    assert page.texts("#send, #new, #archived, #settings-button") == [
        "Neue Sitzung",
        "Archivierte",
        "Einstellungen",
        "Senden",
    ]
    assert page.run("document.querySelector('#search-text').placeholder") == "Nachrichten suchen"
    assert page.run("document.querySelector('#text').value") == "a draft", "the reload keeps what is being written"
    choose(page, "language", "en")
    page.until(lambda: page.run("document.documentElement.lang") == "en", "the page in English")
    wait_live(page)
    assert page.texts("#send") == ["Send"]


def test_without_a_choice_the_page_has_the_language_of_the_browser(page: Browser, live: LiveHouse) -> None:
    with page.speaks("de-AT"):
        page.go("about:blank")
        page.go(f"{live.server.url}/#/s/s")
        wait_live(page)
        assert page.texts("#send") == ["Senden"]
