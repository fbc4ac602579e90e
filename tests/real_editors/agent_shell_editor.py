"""agent-shell in an Emacs without a screen, with the line that `semel acp --print emacs` prints.

It is installed from Emacs's own registries, so whoever has it names the folders of its packages in $AGENT_SHELL_PATH.
What is shown is read from its buffer, by `agent_shell.el`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from real_editor import Json, acp_command, environment
from system_house import House, until

from semel.faces.acp.setup_lines import write_setup
from semel.testing import scripted_agent

CONTROL = Path(__file__).with_name("agent_shell.el")
FAULTS = ("server bug", "Unhandled", "Error", "Notices")


class AgentShell:
    """An Emacs, and the shell that was started in it last. Its agent is that of the house."""

    def __init__(self, house: House) -> None:
        assert shutil.which("emacsclient"), "agent-shell needs Emacs"
        self._folder = tempfile.TemporaryDirectory(prefix="emacs")
        home = Path(self._folder.name)
        self._socket = home / "server"
        self._house_folder = house.home
        self._prompts: list[str] = []
        printed = write_setup("emacs", "semel")
        line = printed.replace('"semel" "acp"', " ".join(map(json.dumps, acp_command(house, agent=()))))
        assert line != printed
        (home / "init.el").write_text(line + "\n")
        folders = [str(Path(folder).resolve()) for folder in os.environ["AGENT_SHELL_PATH"].split(os.pathsep)]
        variables = environment(house, LC_ALL="C.UTF-8", AGENT_SHELL_PATH=os.pathsep.join(folders))
        with (home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["emacs", "-Q", f"--fg-daemon={self._socket}", "-l", CONTROL, "-l", home / "init.el"],
                env=variables, cwd=house.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            until(lambda: self._is_listening() or self._process.poll() is not None, "Emacs's start")
            assert self._process.poll() is None, (home / "log").read_text()
        except BaseException:
            self.end()
            raise

    def _is_listening(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self._socket)) == 0

    def run(self, function: str, *args: str) -> Any:
        """Call a function of `agent_shell.el`, and return its result, which is JSON; None if it is none."""
        call = f"({function} {' '.join(map(_quote, args))})"
        client = ["emacsclient", "-s", str(self._socket), "--eval", call]  # Emacs runs it in emacsclient's folder
        done = subprocess.run(client, cwd=self._house_folder, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, (call, done.stderr)
        return json.loads(json.loads(done.stdout)) if done.stdout.startswith('"') else None

    def look(self) -> Json:
        return dict(self.run("test-look"))

    def new(self) -> str:
        """Start a shell in the house's folder; return the id of its session."""
        self._prompts.clear()
        self.run("test-start", *scripted_agent.command())
        return str(until(lambda: self.look()["session"], f"a session is open: {self.look()['text']}"))

    def begin(self, text: str) -> None:
        """Type a prompt behind the shell's, and press RET."""
        self._prompts.append(text)
        self.run("test-send", text)

    def wait(self) -> None:
        """Wait until no turn is open in the shell."""
        until(lambda: not self.look()["busy"], f"the end of the turn: {self.look()['text'][-500:]}")

    def shown(self) -> str:
        """What the buffer shows in one line, folded parts too, without the prompts that were typed here."""
        text = " ".join(self.look()["text"].split())
        for prompt in self._prompts:
            text = text.replace(" ".join(prompt.split()), "", 1)
        return text

    def sees(self, text: str) -> None:
        until(lambda: text in self.shown(), f"{text!r} is shown: {self.shown()[-500:]}")

    def faults(self) -> list[str]:
        """What agent-shell shows where an agent has broken its protocol, or wrote to stderr."""
        return [fault for fault in FAULTS if fault in self.shown()]

    def questions(self) -> list[str]:
        """The words of the buttons that are offered now."""
        return list(self.look()["buttons"])

    def choose(self, name: str) -> None:
        self.run("test-choose", name)

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.wait()
            self._folder.cleanup()


def _quote(text: str) -> str:
    """Return a string as Emacs Lisp reads it."""
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))
