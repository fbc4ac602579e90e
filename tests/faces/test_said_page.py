"""The page shows every character that was said, in Chromium: final, as it streams, and what people and Semel said."""

from __future__ import annotations

import browser
import pytest
from browser import Browser
from live_house import LiveHouse, visit
from said_judge import missing, plain
from said_texts import texts

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

SEEDS = range(100, 104)
COUNT = 150
READ = """[...document.querySelectorAll("#rows > li")].map((row) => {
  const body = row.querySelector(".body, .output") ?? row;
  const copy = body.cloneNode(true);
  for (const list of copy.querySelectorAll("ol")) {
    let number = list.start;
    for (const item of list.children) item.prepend(`${number++}. `);
  }
  body.after(copy);
  const read = [copy.innerText, [...copy.querySelectorAll("a")].map((link) => link.getAttribute("href") ?? "")];
  copy.remove();
  return read;
})"""

RAW = "[...document.querySelectorAll('#rows .body')].map((body) => body.textContent)"


def judged(page: Browser, said: list[str], count: int) -> None:
    page.until(lambda: page.run("document.querySelectorAll('#rows > li').length") == count, f"{count} rows")
    for text, (shown, addresses) in zip(said, page.run(READ), strict=True):
        lost = missing(text, shown, addresses)
        assert lost is None, lost


def said_by(seed: int) -> list[str]:
    return [text for text in texts(seed, COUNT) if text.strip()]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_page_shows_every_character_that_an_agent_said(page: Browser, live: LiveHouse, seed: int) -> None:
    said = said_by(seed)
    script = live.script("final")
    live.do(lambda: script.entries([("agent", text, {}) for text in said]))
    visit(page, live, "final")
    judged(page, said, len(said))


def test_the_page_shows_every_character_while_it_streams(page: Browser, live: LiveHouse) -> None:
    said = said_by(7)[:60]
    script = live.script("live")
    seqs = live.do(lambda: [script.entry("agent", "", live=True) for _ in said])
    visit(page, live, "live")
    for at in range(0, max(map(len, said)), 40):
        pieces = [(seq, text[at : at + 40]) for seq, text in zip(seqs, said, strict=True) if text[at:]]
        live.do(lambda: [script.append(seq, piece) for seq, piece in pieces])  # noqa: B023
    page.until(
        lambda: all(missing(text, *shown) is None for text, shown in zip(said, page.run(READ), strict=True)),
        "all of it",
    )
    assert page.run("document.querySelectorAll('#rows .live').length") == len(said)
    judged(page, said, len(said))


def test_the_page_shows_every_character_of_people_events_and_notices(page: Browser, live: LiveHouse) -> None:
    said = said_by(9)
    script = live.script("others")
    live.do(lambda: script.entries([(("user", "event", "notice")[n % 3], text, {}) for n, text in enumerate(said)]))
    visit(page, live, "others")
    page.until(lambda: page.run(RAW) == list(map(plain, said)), "all of it")
