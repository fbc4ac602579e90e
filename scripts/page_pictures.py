"""Take pictures of the faces: `python scripts/page_pictures.py FOLDER` (it needs Chromium and chromedriver).

Each scene is played in a real gateway in memory, by the doubles of `tests/http`, and taken of the page in a light, a
dark and a phone's window, and of the terminal. Build the page first (`make page`). Look at the pictures before and
after a change of a face.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "http"))

from browser import Browser, missing
from demo_picture import REMOTE_FONT
from gateway_house import PlayedConversation
from live_house import OPTIONS, LiveHouse
from test_http_page_files import picture, put

from semel.faces.address_file import publish_address
from semel.faces.http import make_app
from semel.faces.http.server import serve_unix
from semel.faces.terminal.app import ChatApp
from semel.faces.terminal.rows import RowWidget

WINDOWS: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"dark": True},
    "phone": {"width": 390, "height": 844},
}
NOW = time.time_ns() // 1_000_000
OPEN_CHANGE = """void (() => {
  const call = document.querySelector('#rows .tool:has(.diff) details');
  call.open = true;
  call.scrollIntoView({ block: 'center' });
})()"""
ANSWER = """The test failed because **the clock was read twice**. I read it once now:

```python
def is_due(at: float, now: float) -> bool:
    return at <= now  # one reading of the clock
```

| file | lines | why |
|---|---:|---|
| `clock.py` | 12 | reads the clock once |
| `test_clock.py` | 4 | holds the clock still |

- All 412 tests pass.
- Nothing else calls `is_due`.
"""


def play_conversation(live: LiveHouse) -> None:
    script = live.script("conversation")
    diff = {"path": "src/clock.py", "oldText": "a = now()\nb = now()\n", "newText": "a = b = now()\n"}
    live.do(lambda: script.entry("user", "Why does test_clock fail now and then? Please mend it."))
    live.do(lambda: script.item("thought", text="Two readings of the clock may differ."))
    live.do(
        lambda: script.item(
            "tool", title="pytest tests/test_clock.py", tool_kind="execute", status="failed", exit=1, text="1 failed"
        )
    )
    live.do(lambda: script.item("tool", title="Edit src/clock.py", tool_kind="edit", status="done", diffs=[diff]))
    live.do(lambda: script.item("tool", title="mcp__semel__send_message", status="done"))
    live.do(lambda: script.entry("agent", "I have found it.", tool=True))
    live.do(lambda: script.entry("agent", ANSWER))
    live.do(lambda: script.entry("user", "Thanks! And now the other one."))
    live.do(lambda: script.entry("notice", "Stopped by owner.", kind="turn.cancelled"))


def begin(live: LiveHouse, key: str, text: str) -> PlayedConversation:
    conversation: PlayedConversation = live.do(lambda: live.world.begin(key, text))
    return conversation


def play_permission(live: LiveHouse) -> None:
    agent = begin(live, "permission", "Build it anew, please.")
    live.do(lambda: agent.ask("rm -r build && make all", OPTIONS))
    change = {"type": "diff", "path": "src/clock.py", "oldText": "a = now()\nb = now()\n", "newText": "a = b = now()\n"}
    agent = begin(live, "edit", "Read the clock once.")
    live.do(lambda: agent.ask("Edit src/clock.py", OPTIONS, rawInput={"path": "src/clock.py"}, content=[change]))


def play_question(live: LiveHouse) -> None:
    script = live.script("question")
    drinks = [{"optionId": name, "name": name, "kind": "answer"} for name in ("Tea", "Coffee")]
    live.do(lambda: script.entry("user", "I am thirsty."))
    live.do(lambda: script.item("tool", title="mcp__semel__ask", status="done"))
    text = "Tea or coffee?\n1. Tea\n2. Coffee"
    card = live.do(lambda: script.item("ask", text, live=True, state="open", options=drinks, at=NOW))
    live.do(lambda: script.entry("agent", text, kind="ask", item=card, tool=True))


def play_files(live: LiveHouse) -> None:
    script = live.script("files")
    pictures = [
        {**put(live, picture(480, height), f"chart-{height}.png", "image/png"), "width": 480, "height": height}
        for height in (180, 240)
    ]
    pictures.append({**put(live, picture(240, 3000), "page.png", "image/png"), "width": 240, "height": 3000})
    report = put(live, b"tea,3\n" * 500, "prices.csv", "text/csv")
    live.do(lambda: script.entry("user", "Draw the prices."))
    live.do(lambda: script.entry("agent", "Here they are.", kind="file", files=[*pictures, report], tool=True))


def play_output(live: LiveHouse) -> None:
    script = live.script("output")
    lines = "".join(f"{number:04}: made part {number} of the whole\n" for number in range(300))
    live.do(lambda: script.entry("user", "Make it."))
    live.do(lambda: script.item("tool", title="make all", tool_kind="execute", status="done", text=lines))
    live.do(lambda: script.entry("notice", "It needs a person: `semel chat output` shows it.", kind="command"))


def play_failure(live: LiveHouse) -> None:
    script = live.script("failure")
    live.do(lambda: script.entry("user", "Summarise the report."))
    live.do(lambda: script.entry("notice", "The agent's turn failed: no credit left.", kind="turn.failed"))


def play_needs(live: LiveHouse) -> None:
    live.do(lambda: live.gateway.schedules.add("tea", "Is it time for tea?", cron="0 16 * * *"))
    live.do(lambda: live.world.hold("Your parcel leaves today."))
    platform = live.world.channels["chat"].platform
    platform.fail_always(None)  # what Semel says about it arrives
    agent = begin(live, "report", "Summarise the report.")
    live.do(lambda: agent.end("error", "no credit left"))


SCENES: dict[
    str, tuple[Callable[[LiveHouse], None], str, str]
] = {  # what plays it, its session, what shows that it is there
    "conversation": (play_conversation, "conversation", "#rows .calm"),
    "permission": (play_permission, "permission", "#rows .request button"),
    "question": (play_question, "question", "#rows .request button"),
    "files": (play_files, "files", "#rows .file img"),
    "output": (play_output, "output", "#rows .notice code"),
    "failure": (play_failure, "failure", "#rows .retry"),
    "needs-you": (play_needs, "main:chat:room", "#rows .decide button"),
}


DIALOGS = {"rename": "#do-rename", "delete": "#do-delete", "settings": "#settings-button", "keys": "#keys-button"}
"""The dialogs, and the button that opens each."""

VIEWS = {
    "inbox": ("#needs", "#needs-list [data-why=failed]"),
    "status": ("#gateway", "#view .process"),
    "outbox": ("#gateway/outbox", "#view .facts button"),
    "schedules": ("#gateway/schedules", "#view .facts button"),
}
"""The views beside the conversation: the address of each, and what shows that it is there."""


def take_pictures(folder: Path) -> None:
    """Write `SCENE-WINDOW.png` for each scene and window into `folder`, and the empty start as `start-WINDOW.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    for window, size in WINDOWS.items():
        live, empty = LiveHouse(), LiveHouse()  # anew for each: half a minute later, Semel finds the scenes odd
        try:
            for play, _, _ in SCENES.values():
                play(live)
            with tempfile.TemporaryDirectory() as profile, Browser(Path(profile), **size) as browser:
                take(browser, f"{empty.server.url}/", "#welcome .folder", folder / f"start-{window}.png")
                for scene, (_, key, sign) in SCENES.items():
                    take(browser, f"{live.server.url}/#/s/{key}", sign, folder / f"{scene}-{window}.png")
                    if scene == "conversation":
                        browser.run(OPEN_CHANGE)
                        browser.settle()
                        browser.shot(folder / f"change-{window}.png")
                    if scene == "output":
                        browser.run("void document.querySelector('#rows .tool summary').click()")
                        browser.settle()
                        browser.shot(folder / f"opened-{window}.png")
                    if scene == "needs-you":
                        browser.run("void document.querySelector('#rows .agent .why').click()")
                        browser.until(lambda browser=browser: browser.texts("#story .steps"), "the story")
                        browser.settle()
                        browser.shot(folder / f"why-{window}.png")
                        take_dialogs(browser, folder, window)
                        browser.run("localStorage.setItem('semel.language', '\"de\"')")
                        take(browser, f"{live.server.url}/#/s/{key}", sign, folder / f"german-{window}.png")
                        browser.run("localStorage.removeItem('semel.language')")
                for view, (address, sign) in VIEWS.items():
                    take(browser, f"{live.server.url}/{address}", sign, folder / f"{view}-{window}.png")
        finally:
            live.close()
            empty.close()
    take_terminals(folder)


def take_terminals(folder: Path) -> None:
    """Write the conversations as the terminal shows them."""
    live = LiveHouse()
    try:
        for play, _, _ in SCENES.values():
            play(live)
        data = live.world.settings.data_dir
        server = live.do(lambda: serve_unix(make_app(live.gateway, live.settings), data / "chat.sock"))
        with publish_address(data, None, live.server.url, data / "chat.sock"):
            drawn = {scene: asyncio.run(draw_terminal(data, key)) for scene, (_, key, _) in SCENES.items()}
        live.do(server.stop)
    finally:
        live.close()
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        for scene, svg in drawn.items():
            source = Path(profile) / f"{scene}.svg"
            source.write_text(REMOTE_FONT.sub("", svg), encoding="utf-8")
            browser.go(source.as_uri())
            browser.shot(folder / f"{scene}-terminal.png")


async def draw_terminal(data: Path, key: str) -> str:
    """Return the SVG of a terminal that shows a session."""
    app = ChatApp(data, key, "ann")
    async with app.run_test(size=(110, 36)) as pilot, asyncio.timeout(60):
        while not (app.query(RowWidget) and app.pane.conversation.is_drawn):
            await pilot.pause(0.05)
        await pilot.pause(0.5)
        return app.export_screenshot()


def take_dialogs(browser: Browser, folder: Path, window: str) -> None:
    """Write the menu of the session and the dialogs, instead of the one that is open."""
    browser.run("document.querySelector('dialog[open]').close()")
    browser.run("document.querySelector('#manage-button').click()")
    browser.until(lambda: browser.texts("#manage a"), "the menu")
    browser.settle()
    browser.shot(folder / f"menu-{window}.png")
    for name, button in DIALOGS.items():
        browser.run("document.querySelector(arguments[0]).click()", button)
        browser.until(lambda name=name: browser.texts(f"#{name} h2"), name)  # type: ignore[misc]
        browser.settle()
        browser.shot(folder / f"{name}-{window}.png")
        browser.run("document.querySelector('dialog[open]').close()")


def take(browser: Browser, address: str, sign: str, path: Path) -> None:
    browser.go("about:blank")
    browser.go(address)
    browser.until(
        lambda: browser.texts(sign) or browser.run("!!document.querySelector(arguments[0])?.complete", sign), sign
    )
    browser.settle()
    browser.shot(path)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python scripts/page_pictures.py FOLDER")
    if why := missing():
        sys.exit(why)
    take_pictures(Path(sys.argv[1]))
