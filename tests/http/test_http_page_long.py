"""A long conversation on the page: it is loaded and scrolled at a cost that its length does not set (Law 11)."""

from __future__ import annotations

import browser
import pytest
from browser import Browser
from live_house import LiveHouse, visit

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

COUNT = 10_000
MAX_LOAD_CPU_S = 0.5  # of scripts, styles and layout, for all of it
MAX_FRAME_CPU_MS = {120: 16, 2_000: 40}  # pixels per frame
MAX_KEYSTROKE_CPU_MS = 16
MAX_ROWS_IN_DOCUMENT = 200
TEXT = "line {}\n\nSome **bold** words and `code`, a list:\n\n- one\n- two\n\n```python\nx = 1\n```\n"
OLDER = "document.querySelector('#older')"
SCROLLER = "document.querySelector('#scroller')"
SCROLL = """void (async () => {
  const scroller = document.querySelector('#scroller');
  window.scrolled = false;
  for (let frame = 0; frame < 60; frame++) {
    scroller.scrollTop -= arguments_px;
    await new Promise(requestAnimationFrame);
  }
  window.scrolled = true;
})()"""
READ = """(() => {
  const top = document.querySelector('#scroller').getBoundingClientRect().top;
  const below = (node) => node.getBoundingClientRect().top > top;
  const line = [...document.querySelectorAll('#rows .body p:first-child')].find(below);
  return [line.innerText.split('\\n')[0], Math.round(line.getBoundingClientRect().top)];
})()"""


def spent(page: Browser) -> float:
    """CPU of the page so far, in seconds."""
    metrics = page.metrics()
    return sum(metrics[name] for name in ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration"))


def load_older(page: Browser) -> None:
    page.run(f"void {OLDER}.click()")
    page.until(lambda: not page.run(f"{OLDER}.disabled"), "older rows")


@pytest.mark.long
def test_ten_thousand_rows_are_loaded_and_scrolled_at_little_cost(page: Browser, live: LiveHouse) -> None:
    script = live.script("long")
    rows = [("agent" if n % 2 else "user", TEXT.format(n), {}) for n in range(COUNT)]
    live.do(lambda: script.entries(rows))
    visit(page, live, "long")
    page.until(lambda: f"line {COUNT - 1}" in str(page.text("#rows")), "the newest")

    before_cpu = spent(page)
    page.type("#text", "what is said is kept " * 3)
    page.settle()
    assert (spent(page) - before_cpu) / 63 * 1000 < MAX_KEYSTROKE_CPU_MS, "with all rows in the document"
    page.run("void document.querySelector('#text').blur()")

    page.run(f"void ({SCROLLER}.scrollTop = {SCROLLER}.scrollHeight / 2)")
    page.until(lambda: page.run(READ), "a line to read")
    for _ in range(2):  # 400 rows are whole in the document, 600 are not
        line, height = page.run(READ)
        load_older(page)
        page.settle()
        line_now, height_now = page.run(READ)
        assert line_now == line and abs(height_now - height) <= 1

    before_cpu = spent(page)
    while not page.run(f"{OLDER}.hidden"):
        load_older(page)
    assert spent(page) - before_cpu < MAX_LOAD_CPU_S
    assert page.run("document.querySelectorAll('#rows > li').length") < MAX_ROWS_IN_DOCUMENT

    for pixels, most in MAX_FRAME_CPU_MS.items():
        page.run(f"void ({SCROLLER}.scrollTop = {SCROLLER}.scrollHeight / 2)")
        page.settle()
        before_cpu = spent(page)
        page.run(SCROLL.replace("arguments_px", str(pixels)))
        page.until(lambda: page.run("window.scrolled"), "the end of the scrolling")
        assert (spent(page) - before_cpu) / 60 * 1000 < most, pixels
    assert page.run("document.querySelectorAll('#rows > li').length") < MAX_ROWS_IN_DOCUMENT
