"""acpx, a client for the command line: each prompt is a process that prints the ACP messages of its connection."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
from pathlib import Path

from model_editor import ModelEditor, Shown
from real_editor import INSTALLED, DisplayedCall, Json, acp_command, environment, find_program
from system_house import House, left, until

ATTEMPTS = 5
SECONDS_AFTER_A_PROMPT = 1  # that the process with the connection waits for another prompt


class Acpx:
    """acpx with a home of its own, and what the connection of its last prompt has shown.

    `policy`: how it answers questions, by itself: --approve-all or --deny-all.
    """

    def __init__(self, house: House, home: Path, policy: str = "--approve-all") -> None:
        home.mkdir()
        self._home, self._folder = home, house.home
        options = ["--format", "json", "--json-strict", "--ttl", str(SECONDS_AFTER_A_PROMPT), policy]
        program = find_program("acpx", "node_modules/.bin/acpx")
        self._command = [str(program), "--agent", shlex.join(acp_command(house)), *options]
        node = INSTALLED / "node/node_modules/node/bin"
        self._environment = environment(house, PATH=f"{node}{os.pathsep}{os.environ['PATH']}", HOME=str(home))
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self.shown = Shown()
        self.messages: list[Json] = []

    def run(self, *args: str) -> Json:
        done = subprocess.run(
            [*self._command, *args], env=self._environment, cwd=self._folder, capture_output=True, text=True,
            timeout=90, check=True,
        )  # fmt: skip
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def new(self) -> str:
        return str(self.run("sessions", "new")["acpxSessionId"])

    def attach(self, session: str) -> None:
        assert self.run("sessions", "new", "--resume-session", session)["acpxSessionId"] == session

    def begin(self, text: str) -> None:
        """Send a prompt by a new process, when that of the last prompt has ended.

        On a busy machine acpx gives up on its own second process, which keeps the connection, before that has started.
        """
        until(lambda: not left(House(self._home)), "the last connection has ended")
        for _ in range(ATTEMPTS):
            self._start(text)
            until(lambda: self.messages, "what acpx says first")
            if "failed to start" not in str(self.messages[0].get("error")):
                return

    def _start(self, text: str) -> None:
        self._finish()
        self.shown, self.messages = Shown(), []
        self._process = subprocess.Popen(
            [*self._command, "prompt", text], env=self._environment, cwd=self._folder,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        model = ModelEditor()
        for line in process.stdout:
            message = json.loads(line)
            if message.get("method") == "session/update":
                model.apply(self.shown, message["params"]["update"], 0)
            self.messages.append(message)

    def _finish(self) -> None:
        """Wait until the prompt's process has ended and all that it printed is read."""
        if self._process is not None and self._reader is not None and self._process.stdout is not None:
            self._process.wait(90)
            self._reader.join(10)
            self._process.stdout.close()

    def stopped(self) -> str:
        """Wait until the prompt's process ends; return the stop reason that it printed."""
        self._finish()
        stops = [one["result"]["stopReason"] for one in self.messages if "stopReason" in (one.get("result") or {})]
        assert len(stops) == 1, self.messages
        return str(stops[0])

    def cancel(self) -> None:
        self.run("cancel")

    def texts(self, kind: str = "agent") -> list[str]:
        return [text.strip("\n") for role, text in list(self.shown.messages.values()) if role == kind]

    def calls(self) -> list[DisplayedCall]:
        calls = list(self.shown.calls.values())
        return [DisplayedCall(one.fields["status"], one.fields["title"], one.text.rstrip("\n")) for one in calls]

    def end(self) -> None:
        """Nothing of it is left: the process that keeps the connection ends by itself."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
        until(lambda: not left(House(self._home)), f"acpx has ended: {left(House(self._home))}")
