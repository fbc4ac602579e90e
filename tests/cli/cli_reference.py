"""The commands of docs/cli.md, made from the help of the command line.

python tests/cli/cli_reference.py --write
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from semel.faces.cli import load_commands

DOC = Path(__file__).parents[2] / "docs" / "cli.md"
BEGIN, END = "<!-- commands: made by tests/cli/cli_reference.py -->", "<!-- end of commands -->"
SHARED_OPTIONS = {"--config", "--data-dir", "--help", "--json"}
SHARED_ARGUMENTS = ("A session's key, such as", "A schedule's name.", "A part's id")
"""Options, and beginnings of the help of arguments, that the page describes once for all commands."""

GROUPS = {
    "Run": ("", ["up", "demo", "init", "link", "docs", "version"]),
    "Talk": (
        "[While the agent is busy](busy.md), [sessions](sessions.md), [exec](exec.md).",
        ["chat", "say", "session", "exec"],
    ),
    "Look": (
        "[Search](search.md), [export and import](export.md).",
        ["sessions", "show", "search", "export", "import", "why", "fold"],
    ),
    "Operate": ("[Is everything all right?](health.md)", ["status", "logs", "doctor", "config"]),
    "Agents": ("[Use an agent](use-an-agent.md), [in your editor](editors.md).", ["agents", "acp"]),
    "Service": ("[Operate a gateway](operate.md).", ["service", "drain"]),
    "Backup": (
        "[Backup and restore](backup.md), [the ledger in PostgreSQL](postgres.md).",
        ["backup", "restore", "ledger"],
    ),
    "Schedules": ("[Schedules](schedules.md). Those of the configuration are changed there.", ["schedules"]),
    "Limits and retention": ("[Limits](limits.md), [retention](retention.md).", ["limits", "retention"]),
    "Background jobs": ("[Background jobs](jobs.md).", ["jobs"]),
    "People": ("[People](people.md).", ["pair", "people"]),
    "The outbox": ("[Channels](channels.md), [the outbox](outbox.md).", ["channels", "outbox"]),
    "Build": ("[Write a channel](write-a-channel.md).", ["channel"]),
}
"""Heading -> (where to read more, names of commands and groups of commands)."""
READ_MORE = {"semel acp": "How to set it up, and what editors show: [in your editor](editors.md)."}
"""Where to read more about a command that has a page of its own."""


def commands_of(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, inside in getattr(command, "commands", {}).items():
        yield from commands_of(inside, f"{path} {name}")
    if not hasattr(command, "commands") and not command.hidden:
        yield path, command


def all_commands() -> dict[str, Any]:
    return dict(commands_of(typer.main.get_command(load_commands()), "semel"))


def section(path: str, command: Any) -> str:
    """One command: a heading with its arguments, its help, and a table of its arguments and options."""
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    heading = " ".join([path, *(param.metavar or param.name.upper() for param in arguments)])
    own = [param for param in command.params if not SHARED_OPTIONS & {*param.opts}]
    rows = [f"| {names_of(param)} | {cell(param)} |" for param in own if not param.help.startswith(SHARED_ARGUMENTS)]
    paragraphs = [" ".join(paragraph.split()) for paragraph in command.help.split("\n\n")]
    if any("--json" in param.opts for param in command.params):
        paragraphs[0] += " `--json`"
    table = ["| | |\n|---|---|\n" + "\n".join(rows)] if rows else []
    more = [READ_MORE[path]] if path in READ_MORE else []
    return "\n\n".join([f"### `{heading}`", *paragraphs, *more, *table])


def names_of(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{(param.metavar or param.name.upper()).strip('[]-. ')}`"
    value = "" if param.is_flag else f" {param.metavar or param.name.upper()}"
    off = f"/{param.secondary_opts[0]}" if param.secondary_opts else ""
    return ", ".join(f"`{name}{off + value if name.startswith('--') else ''}`" for name in param.opts)


def cell(param: Any) -> str:
    default = getattr(param.default, "value", param.default)
    stated = default and default is not True and "efault" not in param.help
    return param.help.replace("|", "\\|") + (f" Default: `{default}`." if stated else "")


def written(text: str) -> str:
    """The page with the sections of all commands as they are now."""
    known = all_commands()
    parts = []
    for heading, (more, names) in GROUPS.items():
        inside = [path for name in names for path in known if re.match(rf"semel {name}(?: |$)", path)]
        parts += [f"## {heading}", *([more] if more else []), *(section(path, known.pop(path)) for path in inside)]
    if known:
        raise LookupError(f"no group in cli_reference.py has {', '.join(known)}")
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{tail}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOC.write_text(written(DOC.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(written(f"{BEGIN}{END}"))
