"""The page before a turn begins: the folder of a new session, and messages that are still being collected."""

from __future__ import annotations

from pathlib import Path

import browser
import pytest
from browser import Browser
from live_house import LiveHouse, shows, visit, wait_live

from semel.gateway.settings.sessions import SessionSettings, WakeSettings

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

FIELD = "document.querySelector('#welcome input')"


def fill(page: Browser, text: str) -> None:
    page.run(f"void ({FIELD}.value = '')")
    page.type("#welcome input", text)
    page.click("#welcome form button")


def test_a_new_session_works_in_the_folder_that_is_chosen(page: Browser, live: LiveHouse, tmp_path: Path) -> None:
    own = str(live.world.settings.agents["main"].cwd)
    page.go(f"{live.server.url}/#/new/main%3Aweb%3Afolder")
    shows(page, "#welcome .folder code", own)
    page.click("#welcome .link")
    page.until(lambda: page.run(f"{FIELD}?.value") == own, "the field")
    page.until(lambda: page.run(f"document.activeElement === {FIELD}"), "the focus in it")
    fill(page, "somewhere")
    page.until(lambda: "absolute" in (page.text("#welcome .wrong") or ""), "what is wrong with it")
    fill(page, str(tmp_path / "missing"))
    page.until(lambda: "missing" in (page.text("#welcome .wrong") or ""), "that it is not there")
    page.errors()  # the browser notes both answers of 400 by itself
    assert "main:web:folder" not in [row["key"] for row in live.do(lambda: live.gateway.sessions())]
    fill(page, str(tmp_path))
    shows(page, "#welcome .folder code", str(tmp_path))
    wait_live(page)
    assert page.texts("#welcome form") == []
    assert live.session("main:web:folder")["workspace"] == str(tmp_path)
    page.type("#text", "hello")
    page.click("#send")
    page.until(lambda: [entry["text"] for entry in live.entries("main:web:folder")] == ["hello"], "the message")


def test_the_demo_agents_first_page_names_the_agents_that_were_found(page: Browser, live: LiveHouse) -> None:
    live.gateway.list_installed_agents = lambda: [{"name": "codex", "command": ["codex-acp"], "line": ""}]
    page.go("about:blank")
    page.go(f"{live.server.url}/#/new/demo%3Aweb%3Afirst")
    shows(page, "#welcome .installed code", "semel agents add codex")
    page.go(f"{live.server.url}/#/new/main%3Aweb%3Afirst")
    shows(page, "#welcome h2", "main")
    assert page.texts("#welcome .installed") == [], "who has an agent is not told of others"


def test_an_empty_session_that_is_there_names_its_own_folder(page: Browser, live: LiveHouse, tmp_path: Path) -> None:
    live.do(lambda: live.gateway.make_session("main:web:made", "main", str(tmp_path)))
    visit(page, live, "main%3Aweb%3Amade")
    shows(page, "#welcome .folder code", str(tmp_path))
    assert page.texts("#welcome .link:not(:last-child)") == []


def test_a_message_that_is_still_being_collected_can_be_stopped(window: Browser) -> None:
    slow = SessionSettings(wake=WakeSettings(debounce_s=600, max_wait_s=600))
    live = LiveHouse(sessions={"s": slow})
    try:
        live.do(lambda: live.gateway.say("s", "wait for more"))
        visit(window, live)
        window.until(lambda: window.run("!document.querySelector('#stop').hidden"), "the stop button")
        assert live.session()["state"] == "waiting"
        window.click("#stop")
        shows(window, "#rows .notice .body", "You stopped it.")
        window.until(lambda: window.run("document.querySelector('#stop').hidden"), "no button without a turn")
        assert live.session()["state"] == "idle"
    finally:
        window.go("about:blank")
        live.close()
