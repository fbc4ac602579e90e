"""The page with what people do on channels: replies, edits, deletions, reactions, received files, silent channels."""

from __future__ import annotations

import browser
import pytest
from browser import Browser
from gateway_house import Script
from live_house import LiveHouse, shows, visit

from semel.gateway.ports import Denied
from semel.testing.channels import FakeChannel

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

GROUP = {"group": True, "title": "Garden"}


async def talk(script: Script) -> None:
    """A group of two people and an agent."""
    first = await script.entry("user", "Shall we meet at five?", event=1, sender="Bob", data=GROUP)
    reply = {"of": first, "quote": "Shall we meet at five?", "whose": "Bob"}
    await script.entry("user", "Yes. I bring the plan.", event=2, sender="Ann", data=GROUP, **reply, files=[
        {"id": "a" * 64, "name": "plan.pdf", "mime": "application/pdf", "size": 123456},
        {"name": "garden.mp4", "mime": "video/mp4", "missing": "larger than 50 MB"},
    ])  # fmt: skip
    edit = await script.entry("user", "Shall we meet at six?", event=3, sender="Bob", kind="edit", data=GROUP, **reply)
    await script.set(first, edited=edit)
    said = await script.entry("agent", "Six it is. I have noted it.", turn=1, claim=1)
    mine = {"of": said, "quote": "Six it is. I have noted it.", "whose": "agent"}
    await script.entry("user", "👍", event=4, sender="Ann", kind="reaction", emoji="👍", data=GROUP, **mine)
    slip = await script.entry("user", "wrong chat, sorry", event=5, sender="Bob", data=GROUP)
    gone = await script.entry(
        "user", "", event=6, sender="Bob", kind="delete", data=GROUP, of=slip, quote="wrong chat, sorry", whose="Bob"
    )  # fmt: skip
    await script.set(slip, deleted=gone)


def test_what_people_do_to_messages_is_told_with_the_message_meant(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: talk(script))
    shows(page, "#rows .head .via", "edited a message", "reacted", "deleted a message")
    shows(
        page, "#rows .quoted", "Bob Shall we meet at five?", "Bob Shall we meet at five?",
        "main Six it is. I have noted it.", "Bob wrong chat, sorry",
    )  # fmt: skip
    shows(page, "#rows .mark", "edited later", "deleted later")
    assert page.texts("#rows .entry.user .who") == ["Bob", "Ann", "Bob", "Ann", "Bob", "Bob"]
    visit(page, live)  # a snapshot shows the same as the changes
    shows(page, "#rows .mark", "edited later", "deleted later")


def test_a_file_that_is_missing_is_named_with_its_reason_and_leads_nowhere(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: talk(script))
    shows(page, "#rows .file", "plan.pdf 121 KB", "garden.mp4 larger than 50 MB")
    assert page.run("document.querySelectorAll('#rows a.file').length") == 1


def test_a_quote_leads_to_its_message(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: talk(script))
    page.click("#rows .quoted")
    page.until(lambda: page.run("document.querySelector('#rows > li > *').matches('.aimed')"), "the message is shown")


def test_a_channel_that_is_silent_is_told_quietly_and_one_that_hears_is_not(page: Browser, live: LiveHouse) -> None:
    chat = live.world.channels["chat"]
    assert isinstance(chat, FakeChannel)
    live.do(lambda: chat.lose(Denied("the token is wrong")))
    visit(page, live)
    page.until(lambda: "chat was refused by its platform" in (page.text("#channels") or ""), "the hint")
    assert "ci" not in (page.text("#channels") or "")
    assert page.run("document.querySelector('#channels').title") == "chat: the token is wrong"
