"""The page for everybody: with a screen reader, on a phone, and with letters of four times their size."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import browser
import pytest
from browser import KEYS, Browser
from gateway_house import MODES
from live_house import OPTIONS, LiveHouse, shows, visit
from test_http_page_files import picture, put
from test_http_page_gateways import gateway

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

ROOT = Path(__file__).parents[2]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
# Below an open dialog, everything else is inert, and was looked at in the view before it.
FIND_VIOLATIONS = """void (() => {
  window.violations = null;
  const top = document.querySelector('dialog[open]') ?? document.querySelector(':popover-open') ?? document;
  axe.run(top, arguments[0]).then(({ violations }) => (window.violations = violations.map(({ id, impact, nodes }) =>
    `${id} (${impact}): ${nodes.map((node) => `${node.target}: ${node.any[0]?.message ?? ""}`).join("\\n  ")}`)));
})()"""
FIND_SMALL = """(() => {
  const top = document.querySelector('dialog[open]') ?? document.querySelector(':popover-open') ?? document;
  const inText = (node) => node.closest('.rich, .soft, #rows .gap') && node.localName === 'a';
  const size = (node) => {
    const box = (node.closest('label') ?? node).getBoundingClientRect();
    const around = getComputedStyle(node, '::after');
    const has = around.content === '""' ? around : { width: '0', height: '0' };
    return [Math.max(box.width, parseFloat(has.width)), Math.max(box.height, parseFloat(has.height))];
  };
  return [...top.querySelectorAll('button, select, textarea, input, summary, a')]
    .filter((node) => node.checkVisibility({ checkVisibilityCSS: true }))
    .filter((node) => !node.closest('.hidden, .skip') && !inText(node))
    .filter((node) => size(node).some((length) => length < 43.9))
    .map((node) => `${node.localName}#${node.id}.${node.className} ${size(node)} ${node.textContent.slice(0, 30)}`);
})()"""
FIND_LOST = """(() => {
  const top = document.querySelector('dialog[open]') ?? document.querySelector(':popover-open') ?? document.body;
  const seen = (node) => node.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true });
  const lost = [...top.querySelectorAll('button, select, textarea, input:not([type=checkbox]), summary, a:not(.skip)')]
    .filter((node) => seen(node) && !node.closest('.hidden, .wide')).filter((node) => {
      node.scrollIntoView({ block: 'center' });
      const { left, right, top, bottom } = node.getBoundingClientRect();
      return left < -1 || right > innerWidth + 1 || bottom < 10 || top > innerHeight - 10 || right - left < 8;
    });
  const wide = [document.documentElement, ...top.querySelectorAll('#scroller, .lists-body')]
    .filter((node) => node.clientWidth && node.scrollWidth > node.clientWidth);
  return [...lost, ...wide].map((node) => `${node.localName}#${node.id}.${node.className} ${node.textContent}`);
})()"""
HEADER_HEIGHT = "document.querySelector('main > .bar').offsetHeight"
READING_HEIGHT = "document.querySelector('#scroller').clientHeight"
ANSWER = r"""The **cause** is `now()`, see [the docs](https://example.org):

> It was read twice.

```python
def is_due(at: float) -> bool:
    return at <= "now"  # 1 reading
```

| file | lines |
|---|---:|
| `clock.py` | 12 |

1. one
2. two

$$
\frac{a}{b}
$$

<details>
<summary>More **readings**</summary>

See https://example.org/clock

</details>
"""


@pytest.fixture(scope="module")
def full() -> Iterator[LiveHouse]:
    """A gateway of a cluster: its session `all` has a row of each kind, and `main:chat:room` has held parts."""
    house = LiveHouse()
    house.gateway.gateways = tell_gateways
    play_rows(house)
    house.do(house.world.hold)
    yield house
    house.close()


async def tell_gateways() -> dict[str, Any]:
    gone = {"gateway": "beta", "sessions": 2, "newest": ["main:web:1"], "text": "..."}
    return {"gateways": [gateway("alpha", is_active=True), gateway("gamma", silent_s=7.0)], "missing_gateways": [gone]}


def play_rows(house: LiveHouse) -> None:
    script = house.script("all")
    diff = {"path": "src/clock.py", "oldText": "a = now()\nb = now()\n", "newText": "a = b = now()\n"}
    tea = [{"optionId": name, "name": name, "kind": "answer"} for name in ("Tea", "Coffee")]
    chart = {**put(house, picture(48, 24), "chart.png", "image/png"), "width": 48, "height": 24}
    house.do(lambda: script.entry("user", "Why does the test fail?"))
    house.do(lambda: script.item("thought", text="Two readings may differ."))
    house.do(lambda: script.item("plan", entries=[{"content": "read", "status": "completed"}, {"content": "mend"}]))
    call: dict[str, Any] = {
        "title": "pytest",
        "tool_kind": "execute",
        "status": "failed",
        "exit": 1,
        "input": {"command": "pytest"},
    }
    house.do(lambda: script.item("tool", text="\x1b[31m1 failed\x1b[0m", **call))
    house.do(lambda: script.item("tool", title="Edit src/clock.py", tool_kind="edit", status="done", diffs=[diff]))
    house.do(lambda: script.entry("agent", ANSWER))
    house.do(lambda: script.entry("agent", "the chart", kind="file", files=[chart], tool=True))
    house.do(lambda: script.entry("event", "build 7 is done", kind="ci", sender="forge"))
    house.do(lambda: script.entry("notice", "The agent's turn failed: no credit left.", kind="turn.failed"))
    house.do(lambda: script.entry("notice", "Stopped by owner.", kind="turn.cancelled"))
    covers = {"first": 1, "last": 1, "turn": 1, "since": 2, "cut": False}
    house.do(lambda: script.entry("notice", "They said hello.", kind="summary", covers=covers))
    text = "Tea or coffee?\n1. Tea\n2. Coffee"
    card = house.do(lambda: script.item("ask", text, live=True, state="open", options=tea))
    house.do(lambda: script.entry("agent", text, kind="ask", item=card, tool=True))
    asked: dict[str, Any] = {"title": "make all", "input": {"command": "make all"}, "options": OPTIONS, "diffs": [diff]}
    house.do(lambda: script.item("permission", live=True, state="open", **asked))
    house.do(lambda: script.item("mode", modes=MODES))


@dataclass
class Findings:
    """What is wrong with the views of the page, by kind and view."""

    by_kind: dict[str, dict[str, list[str]]]

    def check(self, kind: str) -> None:
        wrong = {view: wrong for view, wrong in self.by_kind[kind].items() if wrong}
        assert not wrong, json.dumps(wrong, indent=1)


@pytest.fixture(scope="module")
def findings(window: Browser, full: LiveHouse) -> Findings:
    """Walk through the views once, and look at each in several ways."""
    subprocess.run([sys.executable, ROOT / "scripts" / "build_page.py", "tools"], check=True)
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in ("light", "dark", "phone", "double", "fourfold")}
    for view in views(window, full):
        found["light"][view] = violations(window)
        with window.looks(dark=True):
            found["dark"][view] = violations(window, {"runOnly": ["color-contrast"]})
        with window.looks(390, 844, touch=True):
            found["phone"][view] = shown_small(window)
        with window.looks(640, 512):
            found["double"][view] = lost(window)
        with window.looks(320, 256):
            found["fourfold"][view] = lost(window)
    window.errors()
    return Findings(found)


def violations(page: Browser, options: dict[str, Any] | None = None) -> list[str]:
    """What axe finds wrong with what the page shows."""
    if not page.run("'axe' in window"):
        page.run(f"void (() => {{ {AXE.read_text()} }})()")
    page.settle()
    page.run(FIND_VIOLATIONS, options or {})
    page.until(lambda: page.run("window.violations !== null"), "what axe finds")
    return list(page.run("window.violations"))


def shown_small(page: Browser) -> list[str]:
    """What a finger misses easily: targets of less than 44 pixels, also in the list; a second row of the header."""
    small, height = look_with_list(page, FIND_SMALL, HEADER_HEIGHT)
    return [*small, f"the header has {height} pixels"] if height is not None and height > 64 else small


def lost(page: Browser) -> list[str]:
    """What cannot be reached in a small window, or only by scrolling sideways."""
    found, height = look_with_list(page, FIND_LOST, READING_HEIGHT)
    return [*found, f"the conversation has {height} pixels"] if height is not None and height < 60 else found


def look_with_list(page: Browser, find: str, measure: str) -> tuple[list[str], float | None]:
    """What `find` returns without and with the list of sessions open, and the height that `measure` returns without it.

    Below an open dialog, the list is not opened, and the height is None.
    """
    page.settle()
    found = list(page.run(find))
    if page.run("document.querySelector('dialog[open], :popover-open') !== null"):
        return found, None
    page.run("document.body.classList.add('drawer')")
    found += page.run(find)
    page.run("document.body.classList.remove('drawer')")
    return found, page.run(measure)


def views(page: Browser, house: LiveHouse) -> Iterator[str]:
    """Show one view of the page after another, and name it."""
    visit(page, house, "all")
    shows(page, "#rows .request .label", "Answer", "The agent asks for permission")
    page.run("document.querySelectorAll('#rows details').forEach((one) => (one.open = true))")
    page.run("document.querySelector('#text').select()")
    page.type("#text", "/")
    page.until(lambda: page.texts("#commands li"), "the commands")
    yield "conversation"
    page.type("#text", KEYS["backspace"])
    page.run("document.querySelector('#sessions .session button').click()")
    page.until(lambda: page.texts("#row-menu a"), "the menu of a row")
    yield "row menu"
    page.run("document.querySelector('#row-menu').hidePopover()")
    page.run("document.querySelector('#manage-button').click()")
    page.until(lambda: page.texts("#manage a"), "the menu of the session")
    yield "menu"
    for name in ("rename", "delete"):
        page.run("document.querySelector(arguments[0]).click()", f"#do-{name}")
        yield name
        page.run("document.querySelector('dialog[open]').close()")
    page.run("document.querySelector('#rows a.picture').click()")
    page.until(lambda: page.texts("#lightbox-link"), "the picture")
    yield "lightbox"
    page.run("document.querySelector('dialog[open]').close()")
    for name, sign in (("people", "#people-channels li"), ("gateways", "#gateways-living li")):
        page.run("document.querySelector(arguments[0]).click()", f"#{name}-button")
        page.until(lambda sign=sign: page.texts(sign), name)  # type: ignore[misc]
        yield name
        page.run("document.querySelector('dialog[open]').close()")
    page.run("void (window.ask = fetch, window.fetch = async () => new Response('{}', { status: 401 }))")
    page.run("document.querySelector('#archived').click()")
    page.until(lambda: page.texts("#login h2"), "the question for the token")
    yield "login"
    page.run("void (window.fetch = window.ask, document.querySelector('dialog[open]').close())")
    page.run("document.querySelector('#archived').click()")
    page.run("document.querySelector('#keys-button').click()")
    page.until(lambda: page.texts("#keys dd"), "the keys")
    yield "keys"
    page.run("document.querySelector('dialog[open]').close()")
    page.run("document.querySelector('#settings-button').click()")
    page.until(lambda: page.texts("#settings select"), "the settings")
    yield "settings"
    page.run("document.querySelector('dialog[open]').close()")
    page.run("void (document.querySelector('#search-text').value = 'twice')")
    page.run("document.querySelector('#search').requestSubmit()")
    page.until(lambda: page.texts("#found a"), "a result")
    yield "search"
    visit(page, house, "main:chat:room")
    page.until(lambda: page.texts("#rows .decide button"), "the held parts")
    yield "held parts"
    page.go("about:blank")
    page.go(f"{house.server.url}/#/new/main:web:1")
    page.until(lambda: page.texts("#welcome .folder"), "the start")
    yield "start"


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_wrong_in_any_view(findings: Findings, scheme: str) -> None:
    findings.check(scheme)


@pytest.mark.long
def test_on_a_phone_each_target_has_44_pixels_and_the_header_is_one_row(findings: Findings) -> None:
    findings.check("phone")


@pytest.mark.long
@pytest.mark.parametrize("zoom", ["double", "fourfold"])
def test_nothing_is_lost_when_letters_have_twice_or_four_times_their_size(findings: Findings, zoom: str) -> None:
    findings.check(zoom)


# ---------------------------------------------------------------- the keyboard alone

CONTROLS = """[...document.querySelectorAll('button, select, textarea, input, summary, a, pre, .wide')]
  .filter((node) => node.checkVisibility({ checkVisibilityCSS: true }) && !node.disabled)"""


def test_the_tab_key_reaches_every_control(window: Browser, full: LiveHouse) -> None:
    visit(window, full, "all")
    shows(window, "#rows .request .label", "Answer", "The agent asks for permission")
    window.run("document.querySelectorAll('#rows details').forEach((one) => (one.open = true))")
    window.until(lambda: window.run("!!document.querySelector('#rows .copycode')"), "all of the answer")
    window.run(f"void {CONTROLS}.forEach((node) => (node.dataset.control = ''))")
    window.run("void document.addEventListener('focusin', ({ target }) => delete target.dataset.control)")
    window.run("document.querySelector('.skip').focus()")
    window.press("tab", times=int(window.run(f"{CONTROLS}.length")) + 20)
    left = window.run("[...document.querySelectorAll('[data-control]')].map((node) => node.outerHTML.slice(0, 120))")
    assert left == []


def test_the_focus_is_never_below_the_list_or_the_menu_that_a_key_opened(window: Browser, full: LiveHouse) -> None:
    focused = "document.activeElement.id"
    with window.looks(640, 512):
        visit(window, full, "all")
        window.run("document.querySelector('#menu').focus()")
        window.press("enter")
        window.until(lambda: window.run(focused) == "new", "the focus in the list")
        window.press("escape")
        assert window.run(focused) == "menu", "it is back"
        window.press("enter")
        window.run("document.querySelector('#keys-button').focus()")
        window.press("tab")
        assert not window.run("document.body.classList.contains('drawer')"), "behind its end, the list is closed"
    window.run("document.querySelector('#manage-button').focus()")
    window.press("enter")
    window.until(lambda: window.texts("#manage a"), "the menu of the session")
    window.run("document.querySelector('#do-delete').focus()")
    window.press("tab")
    assert window.run(focused) == "scroller"
    assert not window.texts("#manage a"), "behind its end, the menu is closed"


def test_the_sheet_of_keys_lists_each_key_that_the_page_binds(window: Browser, full: LiveHouse) -> None:
    listeners = {path.name for path in (ROOT / "web" / "src").rglob("*.ts*") if '"keydown"' in path.read_text()}
    assert listeners == {"keys.ts", "busy.ts", "row_menu.tsx"}, (
        "keys are bound with bindKeys; busy.ts only asks whether there was one, and a menu has those of every menu"
    )
    bound = sum(path.read_text().count('{ key: "') for path in (ROOT / "web" / "src").rglob("*.ts*"))
    visit(window, full, "all")
    window.type("#text", "?")
    assert window.run("document.querySelector('#text').value") == "?", "in the box it is a sign"
    window.type("#text", KEYS["backspace"])
    window.run("document.querySelector('#scroller').focus()")
    window.press("shift", "?")
    window.until(lambda: window.texts("#keys dt"), "the sheet")
    assert len(window.texts("#keys dt")) == len(window.texts("#keys dd")) == bound
    assert "Ctrl\nK" in window.texts("#keys dt") or "CtrlK" in window.texts("#keys dt")
    window.press("escape")
    window.until(lambda: not window.run("!!document.querySelector('#keys')"), "the sheet is gone")
    assert window.run("document.activeElement.id") == "scroller", "the focus is back where it was"


def test_keys_lead_to_open_requests_and_through_the_sessions(window: Browser, full: LiveHouse) -> None:
    visit(window, full, "all")
    shows(window, "#rows .request .label", "Answer", "The agent asks for permission")
    for name in ("Tea", "Allow once"):
        window.press("alt", "a")
        assert window.run("document.activeElement.textContent") == name
    assert window.run("document.querySelector('#text').value") == ""
    order = [str(key) for key in window.run("[...document.querySelectorAll('#sessions a')].map((link) => link.hash)")]
    place = order.index("#/s/all")
    window.press("alt", "\ue015" if place + 1 < len(order) else "\ue013")
    other = order[place + 1 if place + 1 < len(order) else place - 1]
    window.until(lambda: window.run("location.hash") == other, "another session")
    window.press("alt", "n")
    window.until(lambda: str(window.run("location.hash")).startswith("#/new/"), "a new session")
    window.errors()
