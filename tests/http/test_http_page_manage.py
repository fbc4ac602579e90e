"""The page's menu of a session: a title, put away, deleted; and a page that shows what is deleted leaves it."""

from __future__ import annotations

import browser
import httpx2
import pytest
from browser import Browser
from live_house import LiveHouse, shows, visit

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")


def say(live: LiveHouse, key: str, text: str) -> None:
    live.do(lambda: live.gateway.say(key, text))


def open_menu(page: Browser) -> None:
    page.until(lambda: page.run("!document.querySelector('#manage-button').hidden"), "the menu's button")
    page.click("#manage-button")
    page.until(lambda: page.run("!!document.querySelector('#manage:popover-open')"), "the menu")


def pick(page: Browser, button: str) -> None:
    open_menu(page)
    page.click(button)


def test_a_session_is_renamed_from_its_menu(page: Browser, live: LiveHouse) -> None:
    say(live, "s", "hello")
    visit(page, live)
    pick(page, "#do-rename")
    assert page.run("document.querySelector('#rename-text').offsetWidth") > 330, "there is room for the placeholder"
    page.run("document.querySelector('#rename-text').value = 'Garden'")
    page.click("#rename-form [type=submit]")
    shows(page, "#title", "Garden")
    page.until(lambda: "Garden" in page.texts("#sessions b"), "the list tells it, too")


def test_an_archived_session_leaves_the_list_and_is_found_among_the_archived(page: Browser, live: LiveHouse) -> None:
    say(live, "s", "hello")
    say(live, "other", "hi")
    visit(page, live)
    pick(page, "#do-archive")
    shows(page, "#sessions b", "hi")
    page.click("#archived")
    shows(page, "#sessions b", "hello")
    page.click("#archived")
    shows(page, "#sessions b", "hi")


def test_a_page_leaves_a_session_that_is_deleted(page: Browser, live: LiveHouse) -> None:
    say(live, "s", "hello")
    say(live, "other", "hi there")
    visit(page, live)
    pick(page, "#do-delete")
    shows(page, "#delete-title", "Delete “hello”?")
    page.click("#delete [type=button]")
    assert page.texts("#rows .body") == ["hello"]
    pick(page, "#do-delete")
    page.click("#delete-form [type=submit]")
    shows(page, "#rows .body", "hi there")
    shows(page, "#sessions b", "hi there")
    assert page.run("decodeURIComponent(location.hash)") == "#/s/other"


def test_a_session_is_saved_from_its_menu(page: Browser, live: LiveHouse) -> None:
    say(live, "s", "hello *there*")
    visit(page, live)
    open_menu(page)
    page.click("#manage-button")
    assert page.run("document.querySelector('#manage:popover-open') === null"), "its button closes it"
    open_menu(page)
    for format, told in (("html", "hello *there*</"), ("md", "hello *there*"), ("jsonl", '"hello *there*"')):
        link = page.run(f"document.querySelector('#do-{format}').href")
        answer = httpx2.get(link, trust_env=False)
        assert answer.status_code == 200 and told in answer.text, answer.text
        assert "attachment" in answer.headers["content-disposition"]
