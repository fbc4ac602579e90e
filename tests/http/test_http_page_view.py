"""The page in a real browser: everything is shown once, and the reader is never disturbed (Law 8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import browser
import httpx2
import pytest
from browser import KEYS, Browser
from gateway_house import Script
from http_house import TOKEN
from live_house import OPTIONS, ROWS, LiveHouse, bodies, shows, visit, wait_live

from semel.faces.http import Settings

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")


# ---------------------------------------------------------------- watching


def test_streamed_text_is_markdown_at_once_and_grows_in_place(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    seq = live.do(lambda: script.entry("agent", "so **bo", live=True))
    bodies(page, "so **bo")
    page.run("void (window.node = document.querySelector('#rows .body p').firstChild)")
    for piece in ("ld** ", "and *more*", "\n\n- x"):
        live.do(lambda piece=piece: script.append(seq, piece))  # type: ignore[misc]
    bodies(page, "so bold and more\n\nx")
    strong = "document.querySelector('#rows .live .body strong')?.innerText"
    assert page.run(strong) == "bold"
    assert page.run("window.node === document.querySelector('#rows .body p').firstChild")
    live.do(lambda: script.finish(seq, text="so **bold** and *more*\n\n- x"))
    page.until(lambda: not page.run("!!document.querySelector('#rows .live')"), "the end")
    bodies(page, "so bold and more\n\nx")
    assert page.run("window.node === document.querySelector('#rows .body p').firstChild")
    assert len(page.texts(ROWS)) == 1


def test_a_selection_survives_more_text_and_the_end_of_it(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    seq = live.do(lambda: script.entry("agent", "select me and", live=True))
    bodies(page, "select me and")
    page.run(
        "void getSelection().setBaseAndExtent(document.querySelector('#rows .body p').firstChild, 0, "
        "document.querySelector('#rows .body p').firstChild, 9)"
    )
    live.do(lambda: script.append(seq, " *go on*"))
    live.do(lambda: script.finish(seq, text="select me and *go on*"))
    page.until(lambda: not page.run("!!document.querySelector('#rows .live')"), "the end")
    assert page.run("getSelection().toString()") == "select me"
    page.run("getSelection().removeAllRanges()")
    page.until(lambda: page.run("!!document.querySelector('#rows .body em')"), "markdown once nobody holds it")


async def fill(script: Script, count: int = 40) -> None:
    await script.entries([("agent", f"line {number}\n\n" + "word " * 30, {}) for number in range(count)])


def test_a_reader_who_scrolled_up_is_not_moved(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: fill(script))
    page.until(lambda: len(page.texts(ROWS)) == 40, "the lines")
    page.type("#text", "my dra")
    page.run("void (document.querySelector('#scroller').scrollTop = 900)")
    page.until(lambda: page.run("!document.querySelector('#scroller').dispatchEvent(new Event('x')) || true"), "")
    place = "[...document.querySelectorAll('#rows > li')].findIndex((n) => n.getBoundingClientRect().bottom > 100)"
    offset = f"document.querySelectorAll('#rows > li')[{place}].getBoundingClientRect().top"
    before = page.run(f"[{place}, {offset}]")
    live.do(lambda: script.set(1, text="a much longer text\n\n" * 20))
    live.do(lambda: fill(script, 3))
    page.until(lambda: len(page.texts(ROWS)) == 43, "more lines")
    after = page.run(f"[{place}, {offset}]")
    assert after[0] == before[0] and abs(after[1] - before[1]) <= 1
    assert page.texts("#down") == ["↓ New below"]
    assert page.run("[document.activeElement.id, document.activeElement.selectionStart]") == ["text", 6]
    page.click("#down")
    page.until(lambda: page.texts("#down") == [], "the end")


def test_a_reader_at_the_end_follows_it(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: fill(script))
    rest = "((s) => s.scrollHeight - s.scrollTop - s.clientHeight)(document.querySelector('#scroller'))"
    page.until(lambda: len(page.texts(ROWS)) == 40 and page.run(rest) < 2, "the end")
    seq = live.do(lambda: script.entry("agent", "", live=True))
    for _ in range(20):
        live.do(lambda: script.append(seq, "streaming on and on\n"))
    page.until(lambda: page.run("document.querySelector('#rows .live .body')?.innerText.length") >= 399, "the text")
    page.until(lambda: page.run(rest) < 2, "the end")  # it is followed once the new height is laid out
    assert page.texts("#down") == []
    live.do(lambda: script.item("tool", title="make", status="done", text="a line\n" * 300))
    page.until(lambda: page.texts("#rows .tool summary") and page.run(rest) < 2, "a call at the end")
    page.click("#rows .tool summary")
    page.until(lambda: page.run(rest) > 300, "its output")
    live.do(lambda: script.append(seq, "more of it\n"))
    page.until(lambda: "more of it" in page.run("document.querySelector('#rows .live .body')?.innerText"), "more")
    top = "document.querySelector('#rows .tool summary').getBoundingClientRect().top"
    assert page.run(top) > 0, "who opens a call at the end reads it from its beginning"
    page.run("document.querySelector('#rows .tool summary').click()")
    page.until(lambda: page.run(rest) < 32, "the end")
    page.settle()  # the page has seen that it is at the end
    live.do(lambda: script.append(seq, "and on\n" * 20))
    page.until(lambda: "and on" in page.run("document.querySelector('#rows .live .body')?.innerText"), "more of it")
    page.until(lambda: page.run(rest) < 2, "the end that is followed again")


def test_after_a_restart_of_the_gateway_the_view_goes_on_without_a_double(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    seq = live.do(lambda: script.entry("agent", "before", live=True))
    bodies(page, "before")
    live.shut()
    page.until(lambda: page.run("document.querySelector('#link').dataset.state") == "lost", "the loss is shown")
    live.do(lambda: script.append(seq, " and after"))
    live.do(lambda: script.entry("notice", "the gateway was restarted: `semel status`, ``"))
    live.open()
    bodies(page, "before and after", "the gateway was restarted: `semel status`, ``")
    assert page.run("document.querySelector('.notice code').innerText") == "`semel status`", "as it is copied"
    assert page.run("document.querySelector('.notice code i').offsetWidth") == 0, "no backtick is seen"
    wait_live(page)


def test_a_snapshot_replaces_the_view(page: Browser, live: LiveHouse) -> None:
    script = live.script("short")
    live.do(lambda: script.entry("agent", "one"))
    visit(page, live, "short")
    live.do(lambda: script.entry("agent", "two"))
    bodies(page, "one", "two")
    live.shut()
    live.do(lambda: script.set(1, text="one, corrected"))
    live.do(lambda: script.entries([("agent", str(n), {}) for n in range(1010)]))  # more than is sent as changes
    live.open()
    bodies(page, *(str(n) for n in range(810, 1010)))


def test_changes_that_were_seen_change_nothing(page: Browser, live: LiveHouse) -> None:
    """The gateway sends each change once; a page that is sent some of them again shows the same."""
    watch = live.gateway.watch

    async def watch_twice(session: str, after: int | None = None) -> AsyncIterator[dict[str, Any]]:
        seen: list[dict[str, Any]] = []
        async for message in watch(session, after):
            if message["type"] == "change":
                seen += message["changes"]
                message = {**message, "changes": seen[-3:]}
            yield message

    live.do(lambda: setattr(live.gateway, "watch", watch_twice))
    script = live.script()
    visit(page, live)
    seq = live.do(lambda: script.entry("agent", "a", live=True))
    for piece in ("b", "c", "d"):
        live.do(lambda piece=piece: script.append(seq, piece))  # type: ignore[misc]
        page.until(lambda piece=piece: page.texts("#rows .body")[-1:] and page.texts("#rows .body")[-1][-1] == piece)  # type: ignore[misc]
    bodies(page, "abcd")


def test_a_tab_that_nobody_looks_at_lets_its_connection_go(page: Browser, live: LiveHouse) -> None:
    """A browser has six connections to one host for all its tabs: streams of hidden ones would take them all."""
    look = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true})"
    changed = "document.dispatchEvent(new Event('visibilitychange'))"
    page.run("void (() => { const real = setTimeout; window.setTimeout = (f, ms) => real(f, Math.min(ms, 50)) })()")
    agent, script = live.begin(), live.script()
    shows(page, "#busy", "working")
    page.run(f"[{look % 'true'}, {changed}].length")
    live.do(lambda: script.entry("agent", "while it runs, a hidden tab listens"))
    bodies(page, "go", "while it runs, a hidden tab listens")
    live.do(lambda: agent.say("done"))
    live.do(agent.end)
    page.until(lambda: live.gateway.hub.count == 0, "nobody watches")
    live.do(lambda: script.entry("agent", "unseen"))
    page.run(f"[{look % 'false'}, {changed}].length")
    bodies(page, "go", "while it runs, a hidden tab listens", "done", "unseen")


def test_a_running_turn_that_shows_nothing_new_for_long_is_told_as_silent(page: Browser, live: LiveHouse) -> None:
    """The line is replaced meanwhile, because nothing comes on it for so long; that shows nothing new, either."""
    page.run(
        "void (() => { const real = setTimeout, now = Date.now; Object.assign(window, { ahead: 0, opened: 0 }); "
        "window.setTimeout = (f, ms) => real(f, Math.min(ms, 50)); Date.now = () => now.call(Date) + window.ahead; "
        "window.EventSource = class extends EventSource { "
        "constructor(url) { super(url); window.opened += /sessions/.test(url) } } })()"
    )
    agent = live.begin()
    shows(page, "#busy", "working")
    page.run("window.ahead = 65000")
    page.until(lambda: page.run("window.opened"), "the line is replaced")
    wait_live(page)
    shows(page, "#busy", "working: nothing new for 60 s")
    live.do(lambda: agent.say("still here"))
    shows(page, "#busy", "working")
    live.do(agent.end)
    shows(page, "#busy", "")


def test_older_history_comes_as_one_scrolls_up_and_moves_nothing(page: Browser, live: LiveHouse) -> None:
    script = live.script("long")
    live.do(lambda: fill(script, 230))
    visit(page, live, "long")
    page.until(lambda: len(page.texts(ROWS)) == 200, "the newest")
    top = "document.querySelector('[data-key=e31] .body').getBoundingClientRect().top"
    before = page.run(f"[document.querySelector('#scroller').scrollTop = 0, {top}][1]")
    page.until(lambda: len(page.texts(ROWS)) == 230, "all of it")
    assert abs(page.run(top) - before) <= 1
    assert page.texts(ROWS)[0].startswith("main")
    assert "line 0" in page.texts(ROWS)[0]
    assert page.texts("#older") == []


def test_tool_output_shows_head_gap_and_tail_and_stays_as_the_reader_left_it(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    tool = live.do(lambda: script.item("tool", title="make test", status="running", live=True, text="one\n"))
    shows(page, "#rows .tool .last", "one")
    page.click("#rows .tool summary")
    live.do(lambda: script.output(tool, "two\n"))
    shows(page, "#rows .tool .output", "one\ntwo\n")
    shows(page, "#rows .tool .last")
    page.click("#rows .tool summary")
    shows(page, "#rows .tool .last", "two")
    page.click("#rows .tool summary")
    live.do(lambda: script.set_item(tool, live=False, status="failed", exit=2, gap=5000, tail="last line"))
    shows(page, "#rows .tool .output", "one\ntwo\n", "last line")
    assert page.texts("#rows .tool .gap") == ["… 5,000 characters are not shown here … Show all"]
    assert page.texts("#rows .tool .state") == ["failed, exit 2"]
    assert page.texts("#rows .tool .last") == []
    assert len(page.texts(ROWS)) == 1
    lines = [f"{number}: a line of a long output\n" for number in range(200)]
    live.do(lambda: script.set_item(tool, text="".join(lines), gap=0, tail=""))
    shows(page, "#rows .tool .output", "".join(lines))
    with page.looks(390, 844, touch=True):
        shows(page, "#rows .tool .output", "".join(lines[:8]).rstrip(), "".join(lines[-8:]))
        page.click("#rows .tool .gap button")
        shows(page, "#rows .tool .output", "".join(lines))
        height = (
            "(({scrollHeight, clientHeight}) => scrollHeight - clientHeight)(document.querySelector('#rows .output'))"
        )
        assert page.run(height) == 0, "nothing scrolls by itself"
        assert page.run("document.querySelector('#scroller').scrollTop") < 200, "and the reader is where that begins"


def test_many_tool_calls_are_one_line_that_opens_and_tells_how_long_they_took(page: Browser, live: LiveHouse) -> None:
    script = live.script()

    def call(title: str, status: str = "done") -> int:
        return int(live.do(lambda: script.item("tool", title=title, status=status, at=1_000)))

    live.do(lambda: script.entry("user", "go"))
    calls = [call(f"step {n}") for n in range(4)]
    live.do(lambda: script.item("thought", text="on"))
    calls += [call("step 4", "failed"), call("step 5")]

    live.do(lambda: script.set_item(calls[0], ended_at=13_000))
    live.do(lambda: script.set_item(calls[5], ended_at=126_000))
    shows(page, "#rows .tool .label", *(f"step {n}" for n in range(6)))
    shows(page, "#rows .tool .took", "12s", "2m 5s")
    live.do(lambda: script.entry("agent", "done"))
    shows(page, "#rows .calls button", "6 tool calls\n1 failed\n2m 5s")
    assert page.texts("#rows .tool") == page.texts("#rows .thought") == []
    page.click("#rows .calls button")
    shows(page, "#rows .tool .label", *(f"step {n}" for n in range(6)))
    assert page.run("document.activeElement.ariaExpanded") == "true"
    page.click("#rows li:nth-of-type(4) summary")
    live.do(lambda: script.entry("user", "again"))
    again = [call(f"again {n}") for n in range(5)]
    opened = f"#rows [data-key=i{again[1]}] summary"
    page.run(f"document.querySelector('{opened}').scrollIntoView({{block: 'center'}})")  # away from the arrow down
    page.click(opened)
    live.do(lambda: script.entry("agent", "done again"))
    bodies(page, "go", "done", "again", "done again")
    assert len(page.texts("#rows .tool")) == 11, "what the reader opened stays open"
    visit(page, live)
    shows(page, "#rows .calls button", "6 tool calls\n1 failed\n2m 5s", "5 tool calls")


def test_rows_stand_in_the_order_they_were_born_in(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: script.entry("user", "go"))
    tool = live.do(lambda: script.item("tool", title="ls", status="running"))
    live.do(lambda: script.entry("agent", "done"))
    live.do(lambda: script.set_item(tool, status="done"))
    order = "[...document.querySelectorAll('#rows > li > *')].map((n) => n.dataset.key)"
    page.until(lambda: page.run(order) == ["e1", f"i{tool}", "e2"], "the order")
    visit(page, live)
    page.until(lambda: page.run(order) == ["e1", f"i{tool}", "e2"], "the same order after a reload")


# ---------------------------------------------------------------- safety


def test_agent_text_runs_nothing_and_loads_nothing(page: Browser, live: LiveHouse) -> None:
    attacks = (
        "<img src=x onerror='window.pwned=1'><script>window.pwned=1</script>"
        "[x](javascript:window.pwned=1) ![p](http://127.0.0.1:9/pixel.png) <svg onload=window.pwned=1>"
    )
    script = live.script()
    live.do(lambda: script.entry("agent", attacks))
    live.do(lambda: script.entry("user", attacks, sender="<b>x</b>"))
    live.do(lambda: script.item("tool", title=attacks, text=attacks, status="done"))
    page.until(lambda: len(page.texts(ROWS)) == 3, "the rows")
    assert page.run("window.pwned") is None
    assert page.run("document.querySelectorAll('#rows img, #rows script, #rows svg, #rows .who b').length") == 0
    loaded = page.run("performance.getEntriesByType('resource').map((e) => new URL(e.name).origin)")
    assert set(loaded) == {live.server.url}


def test_where_a_token_is_demanded_the_page_asks_for_it(window: Browser) -> None:
    house = LiveHouse(Settings(listen="0.0.0.0", token=TOKEN))
    try:
        script = house.script()
        house.do(lambda: script.entry("agent", "secret"))
        window.go(f"{house.server.url}/#/s/s")
        window.until(lambda: window.run("!!document.querySelector('#login[open]')"), "the question")
        window.type("#token", f"wrong{KEYS['enter']}")
        window.until(lambda: "not the owner's token" in (window.text("#login-wrong") or ""), "a no")
        window.run("void (document.querySelector('#token').value = '')")
        window.type("#token", TOKEN + KEYS["enter"])
        bodies(window, "secret")
        window.run("fetch('/v1/logout', {method: 'POST'})")
        window.go("about:blank")
        window.go(f"{house.server.url}/#token={TOKEN}")
        window.until(lambda: "secret" in (window.text("#rows") or ""), "a link that brings the token")
        assert TOKEN not in window.run("location.href")
        window.run("fetch('/v1/logout', {method: 'POST'})")
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        made = httpx2.post(f"{house.server.url}/v1/login/codes", headers=bearer, trust_env=False).json()
        window.go("about:blank")
        window.go(f"{house.server.url}/#code={made['code']}")
        window.until(lambda: "secret" in (window.text("#rows") or ""), "a link with a code that works once")
        assert made["code"] not in window.run("location.href")
        window.errors()
    finally:
        house.close()


def test_a_login_link_works_in_a_tab_that_asks_for_the_token(window: Browser) -> None:
    """The browser does not load a page again if only what follows the # changes."""
    house = LiveHouse(Settings(listen="0.0.0.0", token=TOKEN))
    try:
        script = house.script()
        house.do(lambda: script.entry("agent", "secret"))
        window.go(house.server.url)
        window.run("fetch('/v1/logout', {method: 'POST'})")
        window.go(house.server.url)
        window.until(lambda: window.run("!!document.querySelector('#login[open]')"), "the question")
        window.go(f"{house.server.url}/#token=wrong")
        window.until(lambda: "not the owner's token" in (window.text("#login-wrong") or ""), "a no")
        window.go(f"{house.server.url}/#token={TOKEN}")
        window.until(lambda: "secret" in (window.text("#rows") or ""), "the session")
        assert not window.run("!!document.querySelector('#login[open]')")
        assert TOKEN not in window.run("location.href")
        window.errors()
    finally:
        house.close()


def test_nothing_overflows_a_narrow_phone(tmp_path: Path, live: LiveHouse) -> None:
    script = live.script()
    long = "x" * 300
    live.do(lambda: script.entry("user", long, sender=long))
    live.do(
        lambda: script.entry(
            "agent",
            f"{long}\n\n```\n{long}\n```\n\n|a|b|\n|-|-|\n|{long}|{long}|\n\nhttps://a.example/{long}",
        )
    )
    live.do(lambda: script.item("tool", title=long, input={"command": long}, text=long, status="done"))
    live.do(lambda: script.item("permission", title=long, state="open", options=[{"optionId": "y", "name": long}]))
    way = {"to": f"telegram:{long}", "state": "held", "parts": 1, "part": 1, "error": long}
    live.do(lambda: script.entry("agent", "hi", to=long, delivery=[way]))
    live.begin()
    live.do(lambda: live.gateway.say("s", "two"))
    live.do(lambda: live.gateway.rename("s", long[:200]))
    with Browser(tmp_path, 360, 640) as phone:
        visit(phone, live)
        phone.until(lambda: len(phone.texts(ROWS)) == 7, "the rows")
        wide = phone.run(
            "[innerWidth, document.documentElement.scrollWidth, document.querySelector('#scroller').scrollWidth]"
        )
        assert wide == [360, 360, 360]
        box = phone.run("document.querySelector('#composer .box').getBoundingClientRect().toJSON()")
        assert box["left"] == 360 - box["right"] > 0, "the message box stands in the middle"
        phone.click("#menu")
        phone.until(
            lambda: phone.run("document.querySelector('#new').checkVisibility({checkVisibilityCSS: true})"),
            "the list",
        )
        assert phone.errors() == []


def test_every_control_has_a_name(page: Browser, live: LiveHouse) -> None:
    live.do(live.world.hold)
    script = live.script("main:chat:room")
    live.do(lambda: script.item("permission", title="Run it?", state="open", options=OPTIONS))
    visit(page, live, "main:chat:room")
    page.until(lambda: page.texts("#rows .decide button") != [], "the rows")
    nameless = page.run("""[...document.querySelectorAll('button, select, textarea, input, a')]
        .filter((n) => !(n.innerText?.trim() || n.getAttribute('aria-label') || n.labels?.length || n.title))
        .map((n) => n.outerHTML)""")
    assert nameless == []
    lettered = page.run("[...document.querySelectorAll('button.icon')].filter((one) => one.textContent.trim()).length")
    assert lettered == 0, "icons are drawn: a font may lack their letters"


def test_time_and_copy_button_of_an_answer_cover_no_other_text(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    for role, text in (("user", "deploy it"), ("agent", "Done."), ("user", "and now?"), ("agent", "Nothing.")):
        live.do(lambda role=role, text=text: script.entry(role, text))  # type: ignore[misc]
    bodies(page, "deploy it", "Done.", "and now?", "Nothing.")
    covered = page.run(
        "[...document.querySelectorAll('#rows .aside')].flatMap((aside) => {"
        "  const box = aside.getBoundingClientRect();"
        "  return [...document.querySelectorAll('#rows .body')].filter((body) => {"
        "    const other = body.getBoundingClientRect();"
        "    return other.top < box.bottom && box.top < other.bottom"
        "      && other.left < box.right && box.left < other.right;"
        "  }).map((body) => body.innerText); })"
    )
    assert covered == []
    opacity = "[...document.querySelectorAll('#rows .agent > .aside')].map((aside) => getComputedStyle(aside).opacity)"
    assert page.run(opacity) == ["0", "1"], "that of the last answer is always there"


def test_a_summary_is_folded_until_it_is_opened(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: script.entry("user", "hello"))
    covers = {"first": 1, "last": 1, "turn": 1, "since": 2, "cut": False}
    live.do(lambda: script.entry("notice", "They said hello.", kind="summary", covers=covers))
    page.until(lambda: page.run("!!document.querySelector('#rows .notice.summary')"), "the summary")
    shown = "document.querySelector('#rows .summary .body').checkVisibility()"
    assert not page.run(shown)
    assert page.run("document.querySelector('#rows .summary .who').innerText") == "Summary"
    assert "of entries 1 to 1" in page.run("document.querySelector('#rows .summary summary').innerText")
    page.click("#rows .summary summary")
    page.until(lambda: page.run(shown), "its text")
    assert page.run("document.querySelector('#rows .summary .body').innerText") == "They said hello."
