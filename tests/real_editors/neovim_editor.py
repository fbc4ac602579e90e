"""Neovim with the settings that `semel acp --print neovim` prints. What is shown is read from its buffers."""

from __future__ import annotations

import json
import re

from neovim_process import NeovimProcess
from real_editor import DisplayedCall, Json, acp_command
from system_house import House, until

from semel.faces.acp.setup_lines import NEOVIM_CLIENT, write_setup

FENCED = re.compile(r"(`{3,})console\n(.*?)\n?\1", re.DOTALL)  # a tool's output, as `call_writer` writes it


class Neovim(NeovimProcess):
    """Neovim, and its client's session that was opened last.

    `command`: what it starts as its agent, if that is not `semel acp` for the house.
    """

    sees_others_at_once = True
    prelude = "local semel = require('semel')"

    def __init__(self, house: House, command: list[str] | None = None) -> None:
        lines = write_setup("neovim", "semel")
        words = ", ".join(map(json.dumps, command or acp_command(house)))
        printed = lines.replace('"semel", "acp"', words)
        assert printed != lines and str(NEOVIM_CLIENT) in printed
        super().__init__(house, printed)

    def rows(self) -> list[Json]:
        return list(self.run("return semel.last and semel.rows() or {}"))

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
        self.press("<CR>")

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
        self.press("<CR>")

    def cancel(self) -> None:
        self.run("vim.cmd('Semel cancel')")
