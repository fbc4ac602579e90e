"""The page's settings: its colours, density and language stay in the browser that they were chosen in."""

from __future__ import annotations

from dataclasses import replace

import browser
import pytest
from browser import Browser
from live_house import OPTIONS, LiveHouse, shows, wait_live

from semel.faces.http import static

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

GROUND = "getComputedStyle(document.body).backgroundColor"


def open_settings(page: Browser) -> None:
    """Open the settings, by two clicks: the second one comes before the first had an effect."""
    page.run("[1, 2].forEach(() => document.querySelector('#settings-button').click())")
    page.until(lambda: page.texts("#settings select"), "the settings")
    page.settle()
    assert page.run("document.querySelectorAll('dialog').length") == 1


def choose(page: Browser, name: str, value: str) -> None:
    """Choose in the settings as a person does, with the keyboard or the mouse."""
    if not page.run("document.querySelector('#settings')"):
        open_settings(page)
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
    open_settings(page)
    assert page.run("[...document.querySelectorAll('#settings select')].map((one) => one.value)") == [
        "light",
        "compact",
        "",
    ]


def test_in_german_the_page_speaks_german_and_people_are_quoted_as_they_spoke(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: script.entry("user", "Show older"))
    live.do(
        lambda: script.item("permission", live=True, state="open", options=OPTIONS, input={"command": "make"}, at=1)
    )
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
    page.click("#needs")
    shows(page, "#view h1", "Sie werden gebraucht")
    shows(page, "#needs-list .head span", "main · bittet um Erlaubnis")
    page.click("#gateway-link")
    shows(page, "#view .tabs a", "Status", "Postausgang", "Zeitpläne", "Aufträge")
    shows(page, "#view section h2", "Gateway", "Agenten", "Kanäle", "Die Bücher")
    page.click("#view .close")
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


# ---------------------------------------------------------------- notifications

SHOWN = """void navigator.serviceWorker.getRegistration('/page/worker.js').then((found) => found.getNotifications())
    .then((found) => (window.shown = found.map(({ title, body, tag }) => [title, body, tag])))"""


def notifications(page: Browser) -> list[list[str]]:
    page.run(SHOWN)
    return list(page.run("window.shown ?? []"))


def switch(page: Browser) -> bool:
    """Switch notifications on or off, and return whether they are on."""
    open_settings(page)
    page.click("#settings [name=notify]")
    page.until(
        lambda: page.run("!!localStorage.getItem('semel.notify')") or any(page.texts("#settings [role=status]")), "it"
    )
    page.run("document.querySelector('#settings').close()")
    return bool(page.run("!!localStorage.getItem('semel.notify')"))


def test_a_session_that_needs_you_is_notified_once_while_nobody_looks(page: Browser, live: LiveHouse) -> None:
    page.allow("notifications", "denied")
    assert page.run("document.querySelector('#settings') === null && Notification.permission") == "denied"
    assert not switch(page), "the browser said no"
    page.allow("notifications", "granted")
    assert switch(page)
    page.until(
        lambda: page.run("navigator.serviceWorker.getRegistration('/page/worker.js').then((one) => !!one?.active)"),
        "the worker",
    )
    script = live.script("deploy")
    first = live.do(lambda: script.item("permission", live=True, state="open", options=OPTIONS, title="one"))
    page.until(lambda: page.texts("#needs"), "the need")
    assert notifications(page) == [], "somebody looks at the page"
    with page.hidden():
        page.until(lambda: page.run("document.hidden"), "nobody looks")
        page.run("localStorage.setItem('semel.left', '\"0\"')")  # long ago
        live.do(lambda: script.entry("agent", "some news"))
        page.until(lambda: notifications(page), "what was seen and is still open")
        assert notifications(page) == [["deploy needs you", "1 approval", "#/s/deploy/open"]]
        second = live.do(lambda: script.item("permission", live=True, state="open", options=OPTIONS, title="two"))
        two = [["deploy needs you", "2 approvals", "#/s/deploy/open"]]
        page.until(lambda: notifications(page) == two, "the notification")
    with page.hidden():
        page.run(
            "navigator.serviceWorker.getRegistration('/page/worker.js').then((one) => one.getNotifications())"
            ".then((shown) => shown.forEach((one) => one.close()))"
        )
        page.run("localStorage.setItem('semel.left', '\"0\"')")
        live.do(lambda: script.entry("agent", "more news"))
        page.until(lambda: "more news" in " ".join(page.texts("#sessions")), "the list has changed")
        assert notifications(page) == [], "who was told is not told again"
    page.run(
        "navigator.serviceWorker.dispatchEvent(new MessageEvent('message', { data: { open: '#/s/deploy/open' } }))"
    )
    page.until(lambda: page.texts(".request.aimed"), "a click leads to the request")
    for item in (first, second):
        live.do(lambda item=item: script.set_item(item, live=False, state="answered", answer="y"))  # type: ignore[misc]
    page.until(lambda: notifications(page) == [], "what is no longer needed goes")


def test_the_page_can_be_installed(page: Browser) -> None:
    page.until(lambda: page.run("!!document.querySelector('link[rel=manifest]')"), "the manifest's link")
    page.run(
        "void fetch(document.querySelector('link[rel=manifest]').href).then((answer) => answer.json())"
        ".then(async (manifest) => (window.icons = await Promise.all(manifest.icons.map(async ({ src, sizes }) => {"
        "  const image = new Image(); image.src = src; await image.decode();"
        "  return sizes === `${image.width}x${image.height}`; }))))"
    )
    page.until(lambda: page.run("window.icons"), "the icons")
    assert page.run("window.icons") == [True] * 4
    page.until(lambda: page.run("!!document.querySelector('#views-style').sheet"), "what is shown on demand")
    page.offline(True)
    page.click("#keys-button")
    page.until(lambda: page.texts("#keys dt"), "it opens without a connection")
    page.offline(False)
    assert page.run("document.querySelector('meta[name=theme-color]').content") == page.run(GROUND)


def test_after_an_upgrade_a_reload_shows_the_new_page_and_nothing_is_cached(
    page: Browser, live: LiveHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.allow("notifications", "granted")
    assert switch(page)
    files = dict(static.load_files())
    index = files["index.html"]
    new = index.body.replace(b">Skip to", b">New: skip to")
    files["index.html"] = replace(index, body=new, packed=None, etag='"new"')
    monkeypatch.setattr(static, "load_files", lambda: files)
    page.run("location.reload()")
    page.until(lambda: page.run("document.querySelector('.skip')?.textContent.startsWith('New')"), "the new page")
    wait_live(page)
    assert page.run("caches.keys()") == []
