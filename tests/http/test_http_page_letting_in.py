"""People and channels on the page: who may talk, who was refused, codes; and names that would like to be more."""

from __future__ import annotations

import re
from collections.abc import Iterator

import browser
import pytest
from browser import KEYS, Browser
from gateway_house import lossy_channel, until
from live_house import LiveHouse, shows, visit

from semel.gateway.ports import Incoming, Offline, Person, Safety
from semel.gateway.settings import ChannelSettings, PersonSettings
from semel.testing.channels import FakeChannel, Fault

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

EVIL = "<img src=x onerror=\"document.title='evil'\">\u202egpj." + "W" * 10_000


EVE = Person("@eve", "Eve")
ADA = Person("@ada:example.org", "Ada")
SETTINGS = {
    "matrix": ChannelSettings(name="matrix", kind="matrix"),
    "hook": ChannelSettings(name="hook", kind="webhook", people=False),
    "chat": ChannelSettings(name="chat", kind="chat", people=False),
}


@pytest.fixture
def live() -> Iterator[LiveHouse]:
    """On the channel `matrix`, Ada is known; the channel `hook` is silent."""
    channels = {name: FakeChannel(name, Safety.IDEMPOTENT) for name in ("matrix", "hook")}
    ada = PersonSettings(name="ada", role="owner", accounts=(f"matrix:{ADA.id}",))
    house = LiveHouse(
        channels={**channels, "chat": lossy_channel("chat")}, channel_settings=SETTINGS, people={"ada": ada}
    )
    house.do(lambda: channels["hook"].lose(Offline("it is <b>gone</b>", retry_after=600)))

    async def hook_is_offline() -> bool:
        return house.gateway.channel_manager.list()[1]["state"] == "offline"

    house.do(lambda: until(hook_is_offline))
    yield house
    house.close()


def tell(live: LiveHouse, sender: Person, *texts: str) -> None:
    """Somebody writes to the gateway's account on `matrix`."""
    matrix = live.world.channels["matrix"]
    assert isinstance(matrix, FakeChannel)
    events = [Incoming("message", f"{sender.id}/{text}", "room", sender, text) for text in texts]
    live.do(lambda: matrix.tell(*events))


def opened(page: Browser, live: LiveHouse) -> None:
    visit(page, live)
    page.click("#people-button")
    page.until(lambda: page.texts("#people-channels li"), "the list")


def at(action: str) -> str:
    return f"#people [data-at='{action}']"


def test_channels_people_and_the_refused_are_shown_and_a_channel_that_is_silent_says_why(
    page: Browser, live: LiveHouse
) -> None:
    tell(live, ADA, "one", "two", "three", "four")
    tell(live, EVE, "let", "me in")
    opened(page, live)
    told = page.texts("#people-channels li")
    assert "4 heard · 2 refused" in told[0] and "online" in told[0]
    assert "offline" in told[1] and "it is <b>gone</b>" in told[1]
    shows(page, "#people-known .account", "matrix:@ada:example.org")
    assert "in semel.toml" in page.texts("#people-known")[0] and not page.texts("#people-known button")
    options = page.run("[...document.querySelector('#pair-channel').options].map((one) => one.value)")
    assert options == ["matrix"], "a webhook has no people"
    page.type("#pair-name", KEYS["escape"])
    page.until(lambda: not page.run("!!document.querySelector('#people')"), "it is closed")
    assert page.run("document.activeElement.id") == "people-button"


def test_a_stranger_is_let_in_and_put_out_again_once_that_is_confirmed(page: Browser, live: LiveHouse) -> None:
    tell(live, EVE, "let me in")
    opened(page, live)
    page.click(at("matrix:@eve guest"))
    page.until(lambda: "matrix:@eve is Eve (guest) now." in page.texts("#people-told"), "it is told")
    eve = {"name": "Eve", "role": "guest", "accounts": [{"account": "matrix:@eve", "origin": "added"}]}
    assert eve in live.do(live.gateway.people.list_people)
    shows(page, "#people-quiet", "Nobody, since the gateway started.")
    page.run(f'void document.querySelector("{at("matrix:@eve")}").focus()')
    page.type(at("matrix:@eve"), KEYS["enter"])
    page.until(lambda: "Remove it?" in page.texts("#people-known")[0], "the question")
    assert page.run("document.activeElement.innerText") == "Keep", "a key that is hit twice removes nobody"
    page.click(at("matrix:@eve sure"))
    shows(page, "#people-known .account", "matrix:@ada:example.org")
    assert [person["name"] for person in live.do(live.gateway.people.list_people)] == ["ada"]


def test_what_cannot_be_done_is_told_in_words(page: Browser, live: LiveHouse) -> None:
    stranger = {"account": f"matrix:{ADA.id}", "channel": "matrix", "id": ADA.id, "name": "Ada"}
    stale = {"strangers": [{**stranger, "first": 1, "last": 2, "times": 1}], "refused": []}
    live.do(lambda: setattr(live.gateway.people, "refused", lambda: stale))
    opened(page, live)
    page.click(at("matrix:@ada:example.org member"))
    shows(page, "#people-wrong", "matrix:@ada:example.org is listed in semel.toml, as ada: change it there")
    page.errors()  # the browser notes the 409 by itself


def the_code(page: Browser) -> str:
    page.until(lambda: re.fullmatch(r"\w{4}-\w{4}", page.text("#code-text") or ""), "the code")
    return str(page.text("#code-text"))


def test_a_code_is_shown_once_and_its_use_is_told(page: Browser, live: LiveHouse) -> None:
    opened(page, live)
    page.type("#pair-name", "bob")
    page.click("#pair-make")
    code = the_code(page)
    assert "bob sends this code to the gateway's account on matrix" in (page.text("#code-how") or "")
    page.until(lambda: "expires in 9:5" in (page.text("#code-left") or ""), "it runs down")
    tell(live, Person("@bob", "Bob"), code)
    shows(page, "#code-over", "It was used: matrix:@bob may talk now.")
    page.click("#pair-make")
    page.until(lambda: the_code(page) != code, "another code")
    code = the_code(page)
    page.click("#people header button")
    page.click("#people-button")
    page.until(lambda: "waits to be sent" in (page.text("#pair-open") or ""), "only that there is one")
    assert page.run("document.body.innerHTML.includes(arguments[0])", code) is False


def test_names_of_strangers_senders_and_files_are_text_and_stay_in_their_place(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    files = [live.do(lambda: live.world.add_file(b"...", EVIL, "text/html"))]
    said = live.do(lambda: script.entry("user", "hello", event=1, sender=EVIL, files=files))
    quote = {"of": said, "quote": EVIL, "whose": EVIL}
    live.do(lambda: script.entry("user", "well", event=2, sender="Ann", **quote))
    way = {"to": EVIL, "state": "held", "parts": 1, "part": 1, "error": EVIL}
    live.do(lambda: script.entry("agent", "x", delivery=[way]))
    live.do(lambda: script.entitle(EVIL))
    tell(live, Person("@evil", EVIL), "let me in")
    opened(page, live)
    page.until(lambda: page.texts("#people-strangers .name"), "the stranger")
    for css in ("#people-strangers .name", "#rows .who", "#rows .file", "#rows .quoted b", "#rows .fate b", "#title"):
        told = page.run("document.querySelector(arguments[0]).textContent", css)
        assert told.startswith("<img src=x") and "<U+202E>gpj." in told, css
    assert page.run("document.querySelectorAll('#rows img, #people img').length") == 0
    wider = "[...document.querySelectorAll(arguments[0])].map((n) => n.scrollWidth - n.clientWidth)"
    assert page.run(wider, "html, #side, #scroller, #people .lists-body") == [0, 0, 0, 0]


def test_a_message_of_which_several_parts_are_held_is_decided_at_once_or_one_by_one(
    page: Browser, live: LiveHouse
) -> None:
    first, second, third = live.do(lambda: live.world.hold("one two three four five six seven eight nine"))
    visit(page, live, "main:chat:room")
    shows(page, "#rows .decide > button", "Resend all 3", "All 3 arrived", "Drop all 3")
    page.click("#rows .singly summary")
    texts = {first: "one two three four", second: "five six seven", third: "eight nine"}
    shows(page, "#rows .singly .text", *(f"p{id}: {text}" for id, text in texts.items()))
    page.click("#rows .singly li button:nth-of-type(2)")
    shows(page, "#rows .fate", "chat:room may have arrived (2 of 3 parts)", "chat:room delivered (1 of 3 parts)")
    shows(page, "#rows .singly .text", f"p{second}: five six seven", f"p{third}: eight nine")
    assert page.run("document.activeElement.tagName") == "BUTTON", "focus is not lost with its button"
    chat = live.world.channels["chat"]
    assert isinstance(chat, FakeChannel)
    chat.platform.retry_after = 600
    chat.platform.fail_always(Fault.LIMIT)
    page.click("#rows .decide > button")
    shows(page, "#rows .fate", "chat:room waiting to leave (2 of 3 parts)", "chat:room delivered (1 of 3 parts)")
    parts = live.do(lambda: [live.gateway.part(id) for id in texts])
    assert [part["state"] for part in parts] == ["sent", "queued", "queued"]


def test_a_request_that_was_sent_to_a_chat_is_told_in_one_line_beside_its_buttons(
    page: Browser, live: LiveHouse
) -> None:
    script = live.script()
    live.do(lambda: script.entry("notice", "The agent asks for permission: rm -r build", kind="permission"))
    shows(page, "#rows .asked summary", "The question, as it was sent")
    assert page.texts("#rows .asked .body") == []
    page.click("#rows .asked summary")
    shows(page, "#rows .asked .body", "The agent asks for permission: rm -r build")


def test_where_nobody_has_an_account_the_page_does_not_point_to_codes(window: Browser) -> None:
    hook = FakeChannel("hook", Safety.IDEMPOTENT)
    house = LiveHouse(channels={"hook": hook}, channel_settings={"hook": SETTINGS["hook"]})
    try:
        house.script()
        opened(window, house)
        said = "Nobody: people have no accounts on these channels. Whoever has a webhook's secret may write."
        shows(window, "#people-none", said)
        window.errors()
    finally:
        house.close()
