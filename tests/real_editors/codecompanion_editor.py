"""CodeCompanion in Neovim, with the settings that `semel acp --print codecompanion` prints.

The plugin and plenary.nvim, which it needs, are in the folders that CODECOMPANION_PATH and PLENARY_PATH name. What is
shown is read from the chat's buffer; prompts are sent and requests are answered with the keys that it shows or has.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from neovim_process import NeovimProcess
from real_editor import acp_command
from system_house import House, until

from semel.faces.acp.setup_lines import write_setup

HEADER = re.compile(r"^## (?:(Me)|CodeCompanion\b.*)$")
REQUEST = re.compile(r"\n---\n\*\*Approval Required\*\*\n(?:.*\n)*?---\n")
CHOICE = re.compile(r"(?m)^- `(\S+)` - (.*)$")

# The events are those that the plugin documents.
SETTINGS = """
for _, folder in ipairs({ vim.env.PLENARY_PATH, vim.env.CODECOMPANION_PATH }) do
  vim.opt.runtimepath:append(folder)
end
vim.cmd("runtime plugin/plenary.vim plugin/codecompanion.lua")
require("codecompanion").setup({ %s })
_G.ended, _G.done = {}, 0
vim.api.nvim_create_autocmd("User", { pattern = "CodeCompanionRequestFinished", callback = function(event)
  table.insert(_G.ended, event.data.status)
end })
vim.api.nvim_create_autocmd("User", { pattern = "CodeCompanionChatDone", callback = function()
  _G.done = _G.done + 1
end })
"""


class Section(NamedTuple):
    """What is shown below one header of the chat: its lines, without blank ones, subheadings and requests."""

    is_mine: bool
    lines: list[str]


class CodeCompanion(NeovimProcess):
    """CodeCompanion, with one chat. The output of finished tool calls is shown in their lines."""

    prelude = "local chat = require('codecompanion').last_chat()"

    def __init__(self, house: House) -> None:
        for variable, module in (("CODECOMPANION_PATH", "codecompanion"), ("PLENARY_PATH", "plenary")):
            assert (Path(os.environ[variable]) / "lua" / module).is_dir(), f"{variable} is not the folder of {module}"
        lines = write_setup("codecompanion", "semel")
        command = ", ".join(map(json.dumps, acp_command(house)))
        printed = lines.replace('"semel", "acp"', command)
        assert printed != lines
        shown = printed.replace("commands =", "opts = { verbose_output = true }, commands =")
        assert shown != printed
        super().__init__(house, SETTINGS % f"\n{shown}\n")
        self._turns_done = 0

    def new(self) -> str:
        """Open a chat; return the id of its session."""
        self.run("vim.cmd('CodeCompanionChat adapter=semel')")
        read_id = "return chat and chat.acp_connection and chat.acp_connection.session_id"
        return str(until(lambda: self.run(read_id), "a session is open"))

    def load(self, title: str) -> None:
        """Open a chat, and choose the session with this title in the list of /resume."""
        self.new()
        self.run("_G.picks = { ... }", title)
        resume = "codecompanion.interactions.chat.slash_commands.builtin.resume"
        self.run(f"require('{resume}').new({{ Chat = chat, config = {{}}, context = {{}} }}):execute()")

    def begin(self, text: str) -> None:
        """Type the prompt below the last header, and press Enter."""
        until(
            lambda: self.run("return vim.bo[chat.bufnr].modifiable and not chat.current_request"), "it takes a prompt"
        )
        self._turns_done = self.run("return _G.done")
        self._focus()
        self.run("vim.api.nvim_buf_set_lines(chat.bufnr, -2, -1, false, { ... })", text)
        self.press("<CR>")

    def stopped(self) -> str:
        """Wait until the prompt is answered; return its status: success, cancelled or error."""
        until(lambda: self.run("return _G.done") > self._turns_done, f"the end of the turn: {self.text()[-500:]}")
        return str(self.run("return _G.ended[#_G.ended]"))

    def cancel(self) -> None:
        self._focus()
        self.press("q")

    def text(self) -> str:
        return str(self.run("return table.concat(vim.api.nvim_buf_get_lines(chat.bufnr, 0, -1, false), '\\n')"))

    def sections(self) -> list[Section]:
        sections: list[Section] = []
        for line in REQUEST.sub("\n", self.text() + "\n").splitlines():
            if header := HEADER.match(line):
                sections.append(Section(bool(header[1]), []))
            elif line.strip() and not line.startswith("### "):
                sections[-1].lines.append(line)
        return sections

    def answers(self) -> list[list[str]]:
        """The lines below each of the agent's headers."""
        return [section.lines for section in self.sections() if not section.is_mine]

    def questions(self) -> dict[str, str]:
        """The keys of the choices that the last request names, by their words; none if it was never asked."""
        requests = REQUEST.findall(self.text() + "\n")
        return {words: key for key, words in CHOICE.findall(requests[-1])} if requests else {}

    def choose(self, words: str) -> None:
        """Press the key of a choice."""
        self._focus()
        self.press(self.questions()[words])

    def _focus(self) -> None:
        self.run("vim.api.nvim_set_current_win(vim.fn.bufwinid(chat.bufnr)); vim.cmd('stopinsert')")
