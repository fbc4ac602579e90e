"""What a person writes into an editor's settings to start `semel acp`: Zed, Emacs, CodeCompanion, a plain Neovim."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

EditorName = Literal["zed", "emacs", "codecompanion", "neovim"]
EDITORS: tuple[str, ...] = get_args(EditorName)
NEOVIM_CLIENT = Path(__file__).with_name("semel.lua")


def write_setup(editor: EditorName, program: str, options: Sequence[str] = ()) -> str:
    """Return the lines for an editor. `program`: the path of `semel`. `options`: what follows `semel acp`.

    The words for Emacs end with `--`, because agent-shell puts the command of an agent behind them.
    """
    return _WRITERS[editor]([program, "acp", *options])


def _write_zed(command: Sequence[str]) -> str:
    server = {"type": "custom", "command": command[0], "args": list(command[1:])}
    return "// settings.json\n" + json.dumps({"agent_servers": {"Semel": server}}, indent=2)


def _write_emacs(command: Sequence[str]) -> str:
    words = " ".join(map(json.dumps, [*command, "--"]))
    return f";; init.el, for agent-shell\n(setq agent-shell-command-prefix '({words}))"


def _write_codecompanion(command: Sequence[str]) -> str:
    words = ", ".join(map(json.dumps, command))
    return (
        '-- in require("codecompanion").setup({ ... })\n'
        "adapters = { acp = { semel = function()\n"
        '  return require("codecompanion.adapters.acp").extend("opencode", {\n'
        f'    name = "semel", formatted_name = "Semel", commands = {{ default = {{ {words} }} }},\n'
        "  })\n"
        "end } },\n"
        'interactions = { chat = { adapter = "semel" } },'
    )


def _write_neovim(command: Sequence[str]) -> str:
    words = ", ".join(map(json.dumps, command))
    return f"-- init.lua\ndofile({json.dumps(str(NEOVIM_CLIENT))}).setup({{ command = {{ {words} }} }})"


_WRITERS: dict[str, Callable[[Sequence[str]], str]] = {
    "zed": _write_zed,
    "emacs": _write_emacs,
    "codecompanion": _write_codecompanion,
    "neovim": _write_neovim,
}
