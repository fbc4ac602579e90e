"""Usage errors of the command line as one-line messages."""

from __future__ import annotations

import re
from typing import Any

import typer

from semel.faces.config.problems import nearest

UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not export it
assert UsageError.__name__ == "UsageError"

_NO_COMMAND = re.compile(r"No such command '(.*?)'.*")


def explain(error: Any) -> str:
    """A usage error as one sentence: the command, what is wrong, and the nearest valid name."""
    path = error.ctx.command_path if error.ctx is not None else "semel"
    command = error.ctx.command if error.ctx is not None else None
    where = path.removeprefix("semel").strip()
    return (f"{where}: " if where else "") + _wrong(error, command, path)


def _wrong(error: Any, command: Any, path: str) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")
    if found := _NO_COMMAND.fullmatch(message):
        known = [name for name, each in getattr(command, "commands", {}).items() if not each.hidden]
        return f"there is no command {found[1]!r}{nearest(found[1], known)}"
    if type(error).__name__ == "NoSuchOption":
        known = [name for each in getattr(command, "params", ()) for name in (*each.opts, *each.secondary_opts)]
        options = [name for name in known if name.startswith("-")]
        return f"there is no option {error.option_name}{nearest(error.option_name, options)}"
    message = message.removeprefix("Invalid value: ")  # a command's own check names the option itself
    return f"{message[:1].lower()}{message[1:]}; see {path} --help"
