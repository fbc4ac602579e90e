"""The whole way: a person on the double, a real gateway with the demo agent, killed in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from telegram_house import ANNA, FORUM

from semel.testing.telegram import TOKEN, TelegramControl

PATIENCE = 60.0  # seconds: other work may share the machine


def until(what: Callable[[], Any]) -> Any:
    """Wait until it is true, and return it."""
    end = time.monotonic() + PATIENCE
    while not (got := what()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)
    return got


class Up:
    """`semel up`, and the double beside it, each a process of its own."""

    def __init__(self, home: Path, url: str, stack: ExitStack) -> None:
        self.home = home
        self.control = TelegramControl(url)
        self.stack = stack
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SEMEL_", "XDG_"))}
        self.env = {**kept, "HOME": str(home), "SEMEL_DATA": str(home / "data"), "TELEGRAM_TOKEN": TOKEN}
        (home / "semel.toml").write_text(
            f'[channels.tg]\nkind = "telegram"\ntoken = "env:TELEGRAM_TOKEN"\napi = "{url}"\npace = 0\n'
            f'[people.ada]\nrole = "owner"\naccounts = ["tg:{ANNA}"]\n'
        )

    def start(self) -> None:
        """Until it hears."""
        command = [sys.executable, "-m", "semel", "up", "--listen", "127.0.0.1:0", "--config", "semel.toml"]
        with (self.home / "log").open("ab") as log:
            self.process = self.stack.enter_context(
                subprocess.Popen(command, cwd=self.home, env=self.env, stdout=log, stderr=log)
            )
        self.stack.callback(self.process.kill)
        polls = len(self.call("asked", method="getUpdates"))
        until(lambda: len(self.call("asked", method="getUpdates")) >= polls + 2 or self.process.poll() is not None)
        assert self.process.poll() is None, (self.home / "log").read_text()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def call(self, name: str, /, **arguments: Any) -> Any:
        return self.control.call(name, **arguments)

    def said(self, chat: int, part: str) -> Any:
        """Until the bot said this there; the message."""
        bot = int(TOKEN.partition(":")[0])
        shown = lambda: self.call("shown", chat=chat)  # noqa: E731
        return until(lambda: next((m for m in shown() if m["from"] == bot and part in m["text"]), None))

    def semel(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "semel", *command], cwd=self.home, env=self.env, capture_output=True, text=True
        )
        assert done.returncode == 0, done
        return done.stdout


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with ExitStack() as stack:
        command = [sys.executable, "-m", "semel.testing.telegram", "--port", "0"]
        double = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(double.kill)
        assert double.stdout is not None
        yield Up(tmp_path, double.stdout.readline().split()[0], stack)


@pytest.mark.storm
def test_a_person_talks_with_an_agent_through_kills(up: Up) -> None:
    up.call("person", id=ANNA, name="Ada L")
    up.call("group", id=FORUM, title="Forum", forum=True, status="administrator")
    topic = up.call("topic", chat=FORUM, name="Garden")
    up.start()

    first = up.call("write", chat=ANNA, text="helo")
    up.said(ANNA, "You said: helo")
    up.call("edit", chat=ANNA, message=first, text="hello")
    up.call("react", chat=ANNA, message=first, emoji="🔥")
    up.call("send_file", chat=ANNA, content=b"\xff\xd8\xff", kind="photo", name="p.jpg", caption="my cat")
    up.said(ANNA, "You said: my cat")
    asked = up.call("write", chat=FORUM, text="@test_semel_bot roses?", sender=ANNA, topic=topic)
    answer = up.said(FORUM, "You said: roses?")
    assert (answer["topic"], answer["reply_to"]) == (topic, asked)

    up.call("fail", method="sendMessage", how="hang", after=True)
    up.call("write", chat=ANNA, text="killed while it answers")
    up.said(ANNA, "You said: killed")
    up.kill()
    up.call("write", chat=ANNA, text="written meanwhile")
    up.start()
    up.said(ANNA, "You said: written meanwhile")

    texts = [text.partition("\n")[0] for text in up.call("texts", chat=ANNA)]
    assert texts == [f"You said: {each}" for each in ("helo", "my cat", "killed while it answers", "written meanwhile")]
    parts = [part["state"] for part in json.loads(up.semel("outbox", "list", "--json"))]
    assert sorted(parts) == ["held", "sent", "sent", "sent", "sent"]
    rows = json.loads(up.semel("show", f"demo:tg:{ANNA}", "--json"))
    told = [row["text"] for row in rows if row["role"] == "user"]
    assert told == ["helo", "hello", "🔥", "my cat", "killed while it answers", "written meanwhile"]
    until(lambda: up.call("pending") == [])
    assert "all laws hold" in up.semel("doctor")
    assert TOKEN not in (up.home / "log").read_text()
