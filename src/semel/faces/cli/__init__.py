"""The command line, `semel`: one module per group of commands. The library and the API can do the same.

Exit codes: 0 success, 1 a law is broken or the request failed, 2 wrong usage or configuration.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from functools import cache
from typing import Any

import typer
import typer.main

from semel.faces.cli.app import app
from semel.faces.cli.printing import print_error
from semel.faces.config.problems import suggest_nearest

__all__ = ["load_commands", "main"]

UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not export it
assert UsageError.__name__ == "UsageError"

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_NO_COMMAND = re.compile(r"No such command '(.*?)'.*")
_TEXTS = ("text", "title")  # arguments that may have several words


def load_commands() -> typer.Typer:
    """Return the app with all commands, in the order in which the help lists them."""
    # Importing a module registers its commands, and the import order is the order in the help.
    from semel.faces.cli import up, init, talk, transcript, archive, session  # noqa: F401, I001
    from semel.faces.cli import why, status, doctor, logs, agents, outbox, channels, channel, people, schedules  # noqa: F401
    from semel.faces.cli import acp, exec, jobs, limits, retention, files, docs, backup, service  # noqa: F401

    return app


@cache
def build_command() -> Any:
    """Return the command line as a click command. It takes 25 ms to build, and can be run any number of times."""
    command = typer.main.get_command(load_commands())
    _hide_flag_types(command, command.context_settings["help_option_names"])
    return command


def _hide_flag_types(command: Any, help_options: list[str]) -> None:
    """Give each flag an empty metavar, so that the help shows `--json` and not `--json <bool>`."""
    help_option = command.get_help_option(command.context_class(command, help_option_names=help_options))
    for param in (*command.params, help_option):
        if getattr(param, "is_flag", False):
            param.metavar = ""
    for inner in getattr(command, "commands", {}).values():
        _hide_flag_types(inner, help_options)


def main() -> None:
    """Run the console script. An error that the user can fix is printed in one line, without a traceback.

    If the reader of a pipe has gone (`semel show main | head`), the command ends quietly.
    """
    try:
        try:
            code = _run_command()
        finally:
            sys.stdout.flush()  # what is written only at the exit of Python fails with a traceback
    except BrokenPipeError:
        code = 1
        _discard_output()
    except OSError as error:
        if error.errno not in _DISK_ERRORS or error.filename is not None:
            raise
        code = 1
        _discard_output()
        with contextlib.suppress(OSError):  # stderr may be on the same disk
            print_error(f"the output cannot be written: {error.strerror}")
    sys.exit(code)


def _discard_output() -> None:
    """Redirect stdout to nowhere, because Python would otherwise write what it still buffers when it exits."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _run_command() -> int:
    """Run the command of the command line. Return its exit code; explain errors on stderr."""
    from semel.faces.client import NoGateway, OutcomeUnknown, RequestRefused
    from semel.faces.config import ConfigError
    from semel.ledger.storage.errors import LedgerError

    try:
        code = build_command()(prog_name="semel", standalone_mode=False)
        return code if isinstance(code, int) else 0  # the code of a typer.Exit
    except UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # a group without a command shows its help
            print_error(explain_usage_error(error))
        elif error.message:  # without rich, typer has not shown it yet
            error.show()
        return 2
    except typer.Abort:  # Ctrl-C at a confirmation prompt
        print_error("aborted")
        return 1
    except ConfigError as error:
        print_error(*error.problems)
        return 2
    except RequestRefused as error:
        print_error(str(error))
        return 2 if error.status == 400 else 1
    except (NoGateway, LedgerError) as error:
        print_error(str(error))
        return 1
    except OutcomeUnknown as error:
        print_error(str(error), f"To be sure, say it again with --id {error.id}: it is accepted at most once.")
        return 1


def explain_usage_error(error: Any) -> str:
    """Explain a usage error in one sentence: the command, what is wrong, and the nearest valid name."""
    path = error.ctx.command_path if error.ctx is not None else "semel"
    command = error.ctx.command if error.ctx is not None else None
    where = path.removeprefix("semel").strip()
    return (f"{where}: " if where else "") + _describe_mistake(error, command, path)


def _find_command_with(option: str, group: Any) -> str | None:
    """Return the name of a command in the group that takes the option; None if there is none."""
    commands = {name: item for name, item in getattr(group, "commands", {}).items() if not item.hidden}
    return next((name for name, item in commands.items() if any(option in one.opts for one in item.params)), None)


def _describe_mistake(error: Any, command: Any, path: str) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")
    if match := _NO_COMMAND.fullmatch(message):
        names = [name for name, item in getattr(command, "commands", {}).items() if not item.hidden]
        return f"there is no command {match[1]!r}{suggest_nearest(match[1], names)}"
    if type(error).__name__ == "NoSuchOption":
        names = [name for item in getattr(command, "params", ()) for name in (*item.opts, *item.secondary_opts)]
        options = [name for name in names if name.startswith("-")]
        if taker := _find_command_with(error.option_name, command):
            return f"the option {error.option_name} belongs after a command, as in: {path} {taker} {error.option_name}"
        return f"there is no option {error.option_name}{suggest_nearest(error.option_name, options)}"
    if "unexpected extra argument" in message and any(item.name in _TEXTS for item in command.params):
        return f"{message[:1].lower()}{message[1:]}: put a text of several words in quotes"
    message = message.removeprefix("Invalid value: ")  # a command's own check names the option itself
    return f"{message[:1].lower()}{message[1:]}; see {path} --help"
