"""The page with odd data: a row that cannot be drawn is one row, and nothing reads another way than it is."""

from __future__ import annotations

import time
from typing import Any

import browser
import pytest
from browser import Browser
from live_house import OPTIONS, ROWS, LiveHouse, bodies, shows, visit

from semel.timing.walltime import format_instant

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

BROKEN = "This could not be drawn."
TURNED = "gpj\u202e.exe\u2066"
SHOWN = "gpj<U+202E>.exe<U+2066>"


ODD_ENTRIES: tuple[Any, ...] = ([None], "abc", {"x": 1})


def test_a_row_that_cannot_be_drawn_says_so_and_the_rest_goes_on(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    bad, *_ = live.do(lambda: [script.item("plan", entries=entries) for entries in ODD_ENTRIES])
    live.do(lambda: script.item("tool", title="ls", status="done", text="x"))
    live.do(lambda: script.item("permission", title="Run it?", state="open", options=OPTIONS))
    live.do(lambda: script.entry("agent", "after it"))
    for _ in range(2):  # as it happens, and from a snapshot
        bodies(page, "after it")
        shows(page, "#rows .broken", *[BROKEN] * len(ODD_ENTRIES))
        shows(page, "#rows .request .label", "Run it?")
        assert len(page.texts(ROWS)) == 3 + len(ODD_ENTRIES)
        visit(page, live)
    live.do(lambda: script.set_item(bad, entries=[{"content": "one", "status": "pending"}]))
    shows(page, "#rows .plan ol li", "one")
    shows(page, "#rows .broken", *[BROKEN] * (len(ODD_ENTRIES) - 1))
    for entries in ODD_ENTRIES:
        live.do(lambda entries=entries: script.set_item(bad, entries=entries))
        shows(page, "#rows .broken", *[BROKEN] * len(ODD_ENTRIES))
    assert len(page.texts(ROWS)) == 3 + len(ODD_ENTRIES)


def test_an_entry_that_cannot_be_drawn_says_so_while_it_waits_too(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    seq = live.do(lambda: script.entry("user", "odd", waiting="queued"))
    live.do(lambda: script.set(seq, files=7))
    live.do(lambda: script.entry("agent", "after it"))
    bodies(page, "after it")
    shows(page, "#rows .broken", BROKEN)
    live.do(lambda: script.set(seq, files=None, waiting=None))
    bodies(page, "odd", "after it")


def test_what_is_asked_reads_as_it_is(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    options = [{"optionId": "y", "name": TURNED, "kind": "allow_once"}]
    command = {"command": f"rm {TURNED}\nls", "cwd": TURNED}
    item = live.do(lambda: script.item("permission", title=f"{TURNED}?", input=command, state="open", options=options))
    live.do(lambda: script.item("tool", title=TURNED, input=command, status="done"))
    live.do(lambda: script.item("plan", entries=[{"content": TURNED, "status": "pending"}]))
    shows(page, "#rows .label", f"{SHOWN}?", SHOWN, "Plan")
    shows(page, "#rows .request .input", f"rm {SHOWN}\nls\ncwd: {SHOWN}")
    shows(page, "#rows .request button", SHOWN)
    shows(page, "#rows .plan ol li", SHOWN)
    page.click("#rows .tool summary")
    shows(page, "#rows .tool .input", f"rm {SHOWN}\nls\ncwd: {SHOWN}")
    live.do(lambda: script.set_item(item, state="answered", answer="y", by=TURNED))
    shows(page, "#rows .tool .state", f"{SHOWN} · {SHOWN}")


def test_what_the_gateway_calls_by_names_of_its_own_is_shown_in_plain_words(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    tea = [{"optionId": "Tea", "name": "Tea", "kind": "answer"}]
    live.do(lambda: script.item("tool", title="mcp__semel__ask", status="done"))
    card = live.do(lambda: script.item("ask", "Tea?\n1. Tea", live=True, state="open", options=tea))
    live.do(lambda: script.entry("agent", "Tea?\n1. Tea", kind="ask", item=card, tool=True))
    live.do(lambda: script.entry("notice", "Stopped by owner.", kind="turn.cancelled"))
    bodies(page, "Tea?", "You stopped it.")
    shows(page, "#rows .tool .label", "Asked you")
    shows(page, "#rows .question .head", "main\nasks")
    shows(page, "#rows .request button", "Tea")
    live.do(lambda: script.set_item(card, live=False, state="answered", answer="Tea", by="owner"))
    shows(page, "#rows .question li", "Tea")
    live.do(lambda: script.entry("user", "Tea", kind="answer", sender="the owner"))
    shows(page, "#rows .user .who", "You")
    ran = live.do(lambda: script.item("permission", title="ls", state="open", options=OPTIONS))
    live.do(lambda: script.set_item(ran, state="answered", answer="y", by="the owner"))
    live.do(lambda: script.entry("notice", "Stopped by the owner.", kind="turn.cancelled"))
    shows(page, "#rows .notice .body", "You stopped it.", "You stopped it.")
    page.until(lambda: any("Allow once · You" in text for text in page.texts(ROWS)), "who allowed it")
    assert page.texts("#rows .mark") == []


def test_a_late_report_of_a_command_says_when_it_ended(page: Browser, live: LiveHouse) -> None:
    script, hour_ago = live.script(), int(time.time() * 1000) - 3_600_000
    for ended in (hour_ago, hour_ago + 3_600_000, "yesterday"):
        data = {"ended": ended}
        live.do(lambda data=data: script.entry("event", "it ended", kind="exec.finished", data=data))
    bodies(page, "it ended", "it ended", "it ended")
    assert [text.partition("ended at ")[1] for text in page.texts("#rows .mark")] == ["ended at "]
    shown = page.run("Array.from(document.querySelectorAll('#rows .mark time'), (time) => Date.parse(time.dateTime))")
    assert shown == [hour_ago]


def test_a_late_firing_says_when_it_was_due_and_an_event_who_sent_it(page: Browser, live: LiveHouse) -> None:
    script, hour_ago = live.script(), int(time.time()) - 3600
    for due in (hour_ago, hour_ago + 3600):
        data = {"due": format_instant(due)}
        live.do(lambda data=data: script.entry("event", "water them", kind="schedule", data=data))
    live.do(lambda: script.entry("event", "it broke", kind="build.failed", sender="ci"))
    bodies(page, "water them", "water them", "it broke")
    assert [text.partition("was due at ")[1] for text in page.texts("#rows .mark")] == ["was due at "]
    shown = page.run("Array.from(document.querySelectorAll('#rows .mark time'), (time) => Date.parse(time.dateTime))")
    assert shown == [hour_ago * 1000]
    shows(page, "#rows .who", "schedule", "schedule", "build.failed from ci")


def test_the_colours_of_an_output_are_shown_once_its_call_has_ended(page: Browser, live: LiveHouse) -> None:
    agent = live.begin()
    text = "\x1b[1;32m1 passed\x1b[0m\n10 %\r\x1b[31m100 % <b>\n"
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    live.do(lambda: agent.update("tool_call", toolCallId="t", title="pytest", status="in_progress"))
    live.do(lambda: agent.update("tool_call_update", toolCallId="t", content=content))
    shows(page, "#rows .tool .state", "running")
    page.click("#rows .tool summary")
    shows(page, "#rows .tool .output", "1 passed\n100 % <b>\n")
    live.do(lambda: agent.update("tool_call_update", toolCallId="t", status="completed"))
    shows(page, "#rows .tool .output .ansi-green-fg.ansi-bold", "1 passed")
    shows(page, "#rows .tool .output .ansi-red-fg", "100 % <b>", "\n")
    shows(page, "#rows .tool .output", "1 passed\n100 % <b>\n")
    live.do(agent.end)
