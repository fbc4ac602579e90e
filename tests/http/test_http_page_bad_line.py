"""The page over a line that breaks at random: every text is whole, in its place and there once (Laws 1 and 8).

The page's clock runs faster, so that its retries and time limits fit into a test. `SEED` chooses the order of faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from bad_line import FAULTS, BadLine
from browser import KEYS, Browser
from gateway_house import PlayedConversation
from live_house import OPTIONS, LiveHouse, wait_live

from semel.faces.http import Settings
from semel.faces.http.operations import stream

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

Json = dict[str, Any]

SPEED = 50  # seconds of the page for one of ours
SEED = int(os.environ.get("SEED", "1"))
QUICK = bool(os.environ.get("STORM_QUICK"))  # `python -m proof storms --quick`
FAST_CLOCK = """(() => {
  const speed = %d, begin = Date.now(), {setTimeout: wait, setInterval: repeat, Date: {now}} = window;
  window.setTimeout = (act, ms = 0, ...more) => wait(act, ms / speed, ...more);
  window.setInterval = (act, ms = 0, ...more) => repeat(act, ms / speed, ...more);
  Date.now = () => begin + speed * (now.call(Date) - begin);
  AbortSignal.timeout = (ms) => {
    const end = new AbortController();
    wait(() => end.abort(new DOMException("no answer", "TimeoutError")), ms / speed);
    return end.signal;
  };
})()"""
ROWS = """[...document.querySelectorAll('#rows > li [data-key]')].map((row) => {
  const text = (node) => [...node.childNodes].map((one) => one.nodeName === 'BR' ? '' : one.textContent).join('');
  const block = (node) => node.firstElementChild.className !== 'code' ? text(node.firstElementChild)
    : '```python\\n' + node.querySelector('code').textContent + '```';
  const body = row.querySelector('.body');
  const blocks = [...row.querySelectorAll('.body > .block')];
  const shown = blocks.length ? blocks.map(block).join('\\n\\n') : body ? body.textContent
    : [...row.querySelectorAll('.output')].map((one) => one.textContent).join('');
  return [row.dataset.key, shown];
})"""
PRESS = "!!document.querySelector(arguments[0]) && (document.querySelector(arguments[0]).click(), true)"
SIGNS = ("é", "漢", "🙂", "\u0301", " ", "ß", ".")


class ScriptedPlayer:
    """Answers each prompt at the pace of a model: text in small pieces, a tool call with output, more text. The third
    prompt asks for permission before it ends."""

    def __init__(self, live: LiveHouse, seed: int) -> None:
        self._live = live
        self._random = random.Random(seed)
        self._number = itertools.count()
        self.asked = 0

    async def play(self) -> None:
        conversations = self._live.world.agents["main"].conversations
        answered = 0
        while True:
            await asyncio.sleep(0.01)
            conversation = conversations.get("s")
            if conversation is None or conversation.prompts == answered:
                continue
            answered += 1
            await self._answer(conversation, answered)

    async def _answer(self, conversation: PlayedConversation, turn: int) -> None:
        await self._say(
            conversation, self._words(30) + "\n\n```python\n" + self._words(6) + "\n```\n\n" + self._words(5)
        )
        call = {"toolCallId": "t1" if turn == 3 else f"call-{turn}", "title": f"count {turn}"}
        conversation.update("tool_call", status="in_progress", **call)
        output = ""
        for _ in range(8):
            output += f"line {next(self._number)}\n"
            content = [{"type": "content", "content": {"type": "text", "text": output}}]
            conversation.update("tool_call_update", content=content, **call)
            await asyncio.sleep(0.01)
        if turn == 3:
            conversation.ask("Deploy it?", OPTIONS)
            self.asked += 1
            while "1" not in conversation.answers:  # noqa: ASYNC110  the answer is kept, not told
                await asyncio.sleep(0.01)
        conversation.update("tool_call_update", status="completed", **call)
        await self._say(conversation, self._words(20))
        conversation.end()

    def _words(self, count: int) -> str:
        return " ".join(f"w{next(self._number)}{self._random.choice(SIGNS).strip()}" for _ in range(count))

    async def _say(self, conversation: PlayedConversation, text: str) -> None:
        while text:
            length = self._random.randrange(1, 12)
            conversation.say(text[:length])
            text = text[length:]
            await asyncio.sleep(0.005)


class Person:
    """Somebody who writes one message after another while the line breaks, uploads a file and gives a permission."""

    def __init__(self, page: Browser, live: LiveHouse, file: Path) -> None:
        self._page = page
        self._live = live
        self._file = file
        self.sent: list[str] = []

    def say_next(self) -> None:
        number = len(self.sent)
        if number == 1:
            self._page.type("#file-input", str(self._file))
            self._page.until(self._is_uploaded, "the upload", 60)
        self.sent.append(f"message {number} é漢🙂")
        self._page.run("void (document.querySelector('#text').value = arguments[0])", self.sent[-1])
        self._page.type("#text", KEYS["enter"])

    def _is_uploaded(self) -> bool:
        self._page.run(PRESS, "#files .upload[data-state=failed] button")
        return bool(self._page.run("!!document.querySelector('#files .upload[data-state=done]')"))

    def allow(self) -> None:
        """Answer an open request. Over a dead line, a person presses the button again."""
        self._page.run(PRESS, "#rows .options button:enabled")


@pytest.fixture
def hurried(window: Browser) -> Iterator[Browser]:
    """A window whose pages live fast."""
    made = window.command("Page.addScriptToEvaluateOnNewDocument", source=FAST_CLOCK % SPEED)
    yield window
    window.go("about:blank")
    window.command("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])
    window.errors()  # requests that broke off


@pytest.fixture
def quick_pings(monkeypatch: pytest.MonkeyPatch) -> float:
    """The gateway's pings come in the page's time; how often, in seconds of ours."""
    make_ping = stream._make_ping
    monkeypatch.setattr(stream, "_make_ping", lambda every_s: make_ping(every_s * SPEED))
    monkeypatch.setattr(stream, "RETRY_FIELD", b"retry: %d\n\n" % (1000 // SPEED))
    return 15 / SPEED


@pytest.mark.parametrize(
    "count",
    [pytest.param(30, marks=pytest.mark.long), pytest.param(60 if QUICK else 200, marks=pytest.mark.storm)],
    ids=["few", "many"],
)
def test_nothing_is_lost_doubled_or_misplaced(hurried: Browser, quick_pings: float, tmp_path: Path, count: int) -> None:
    content = random.Random(SEED).randbytes(300_000)
    (tmp_path / "plan.bin").write_bytes(content)
    live = LiveHouse(Settings(heartbeat_s=quick_pings))
    line = BadLine(live.port, SEED)
    player = ScriptedPlayer(live, SEED)
    tasks: list[asyncio.Task[None]] = []
    try:
        live.script()
        live.do(line.open)
        hurried.go(f"http://127.0.0.1:{line.port}/#/s/s")
        wait_live(hurried)
        live.do(lambda: tasks.append(asyncio.ensure_future(player.play())))
        live.do(lambda: tasks.append(asyncio.ensure_future(line.break_down(count))))
        person = Person(hurried, live, tmp_path / "plan.bin")
        talk_until_good(person, tasks[1], hurried)
        hurried.until(lambda: (person.allow(), settled(live, hurried))[1], "the end", 60)
        compare(live, hurried, person, content)
        print(f"seed {SEED}: {len(person.sent)} messages, {dict(line.faults)}")
        assert line.faults.total() >= count and player.asked == 1
        assert count < 100 or set(line.faults) == set(FAULTS)
    finally:
        hurried.go("about:blank")
        live.do(lambda: [task.cancel() for task in tasks])
        live.do(line.close)
        live.close()


def talk_until_good(person: Person, breaking: asyncio.Task[None], page: Browser) -> None:
    """Speak until the line is good again; whoever waits for an answer does so for half a second."""
    while not breaking.done() or len(person.sent) < 4:
        person.say_next()
        end = time.monotonic() + 0.5
        page.until(lambda end=end: person.allow() or time.monotonic() > end, "a pause")  # type: ignore[misc]
    breaking.result()


def settled(live: LiveHouse, page: Browser) -> bool:
    """Whether all that was sent was answered, and the page has caught up."""
    about = live.session()
    idle = about["state"] != "running" and not about.get("waiting")
    on_the_way = page.run("[document.querySelectorAll('#outgoing li').length, Object.keys(localStorage).length]")
    return bool(idle and on_the_way == [0, 0] and page.run("document.querySelector('#link').dataset.state") == "live")


def compare(live: LiveHouse, page: Browser, person: Person, content: bytes) -> None:
    history: Json = live.do(lambda: live.gateway.history("s", 1 << 60, limit=10_000))
    entries, items = sorted(history["entries"], key=lambda entry: int(entry["seq"])), history["items"]
    assert [entry["text"] for entry in entries if entry["role"] == "user"] == person.sent
    [(text, file)] = [(entry["text"], file) for entry in entries for file in entry.get("files", ())]
    assert text == person.sent[1]
    stored = live.gateway.file_store.content.folder / file["id"]
    assert stored.read_bytes() == content
    born = [(entry["born"], f"e{entry['seq']}", entry["text"]) for entry in entries]
    born += [(item["born"], f"i{item['id']}", item["text"]) for item in items if item["kind"] == "tool"]
    expected = [[key, text] for _, key, text in sorted(born)]
    with contextlib.suppress(AssertionError):
        page.until(lambda: page.run(ROWS) == expected, "every row as the ledger has it", 5)
    assert page.run(ROWS) == expected
