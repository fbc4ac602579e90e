"""`semel up` with a Telegram channel, and the double beside it: processes of their own, that tests kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from python_process import run_python, start_python
from telegram_house import ANNA

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
        command = ("-m", "semel", "up", "--listen", "127.0.0.1:0", "--config", "semel.toml")
        with (self.home / "log").open("ab") as log:
            self.process = self.stack.enter_context(
                start_python(*command, cwd=self.home, env=self.env, stdout=log, stderr=log)
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
        done = run_python("-m", "semel", *command, cwd=self.home, env=self.env)
        assert done.returncode == 0, done
        return str(done.stdout)


@contextmanager
def gateway_and_double(home: Path) -> Iterator[Up]:
    """The double runs; the gateway is to be started."""
    with ExitStack() as stack:
        command = [sys.executable, "-m", "semel.testing.telegram", "--port", "0"]
        double = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(double.kill)
        assert double.stdout is not None
        yield Up(home, double.stdout.readline().split()[0], stack)
