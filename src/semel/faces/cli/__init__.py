"""The command line, `semel`: one module per group of commands. The library and the API can do the same.

Exit codes: 0 success, 1 a law is broken or the request failed, 2 wrong usage or configuration.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import re
import sys
from functools import cache
from typing import Any

import typer
import typer.main

from semel.faces.cli.app import app
from semel.faces.cli.printing import forget_options, print_error
from semel.faces.config.problems import suggest_nearest
from semel.faces.standard_streams import flush_streams

__all__ = ["load_commands", "main"]

UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not export it
assert UsageError.__name__ == "UsageError"

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_NO_COMMAND = re.compile(r"No such command '(.*?)'.*")
_TEXTS = ("text", "title")  # arguments that may have several words


_MODULES = (
    "up", "demo", "init", "talk", "transcript", "archive", "session", "why", "status", "doctor", "logs", "agents",
    "outbox", "channels", "channel", "people", "schedules", "acp", "exec", "jobs", "limits", "retention", "files",
    "docs", "backup", "ledger", "service", "drain",
)  # fmt: skip
"""The modules whose import registers commands, in the order in which the help lists these."""


def load_commands(wanted: str | None = None) -> typer.Typer:
    """Return the app with all commands, in the order in which the help lists them.

    `wanted`: a command. Only as many modules are imported as it takes to find it, so that it starts sooner.
    """
    for module in sorted(_MODULES, key=lambda name: name != wanted):  # first the one with the name of the command
        importlib.import_module(f"semel.faces.cli.{module}")
        if wanted is not None and wanted in _list_names(app):
            break
    return app


def _list_names(commands: typer.Typer) -> set[str]:
    named = [group.name for group in commands.registered_groups] + [one.name for one in commands.registered_commands]
    functions = [one.callback.__name__ for one in commands.registered_commands if one.callback and not one.name]
    return {name for name in named if isinstance(name, str)} | set(map(typer.main.get_command_name, functions))


@cache
def build_command(wanted: str | None) -> Any:
    """Return the command line as a click command, which can be run any number of times. All of it takes 25 ms to build.

    `wanted`: as in `load_commands`.
    """
    command = typer.main.get_command(load_commands(wanted))
    _adapt_help(command, command.context_settings["help_option_names"])
    return command


def _find_wanted(words: list[str]) -> str | None:
    """Return the command that these words of the command line call; None if all commands are to be built."""
    if not words or words[0].startswith("-") or words[0] == "help":
        return None
    return None if build_command.cache_info().currsize else words[0]  # a program that runs many builds them once


def _adapt_help(command: Any, help_options: list[str]) -> None:
    """Let the help show `--json` and not `--json <bool>`, and fill its paragraphs to the width of the terminal.

    typer would keep the line breaks of our docstrings.
    """
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n"))
    help_option = command.get_help_option(command.context_class(command, help_option_names=help_options))
    for param in (*command.params, help_option):
        if getattr(param, "is_flag", False):
            param.metavar = ""
    for inner in getattr(command, "commands", {}).values():
        _adapt_help(inner, help_options)


def main() -> None:
    """Run the console script. An error that the user can fix is printed in one line, without a traceback.

    If the reader of a pipe has gone (`semel show main | head`), the command ends quietly.
    """
    try:
        try:
            code = _run_command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        code = 1
    except OSError as error:
        if error.errno not in _DISK_ERRORS or error.filename is not None:
            raise
        code = 1
        with contextlib.suppress(OSError):  # stderr may be on the same disk
            print_error(f"the output cannot be written: {error.strerror}")
    sys.exit(code if flush_streams() else 1)


def _run_command() -> int:
    """Run the command of the command line. Return its exit code; explain errors on stderr."""
    forget_options()
    try:
        words = sys.argv[1:]
        command = typer.main.get_command(app) if words == ["--version"] else build_command(_find_wanted(words))
        code = command(prog_name="semel", standalone_mode=False)
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
    except Exception as error:
        code = _explain_failure(error)
        if code is None:
            raise
        return code


def _explain_failure(error: Exception) -> int | None:
    """Print an error that the user can fix, and return the exit code. Return None for any other error."""
    from semel.faces.client import NoGateway, OutcomeUnknown, RequestRefused  # only now: `semel up` needs no client
    from semel.faces.config import ConfigError
    from semel.ledger.storage.errors import LedgerError

    if isinstance(error, ConfigError):
        print_error(*error.problems)
        return 2
    if isinstance(error, RequestRefused):
        print_error(str(error))
        return 2 if error.status == 400 else 1
    if isinstance(error, NoGateway):
        print_error(str(error))
        return 1
    if isinstance(error, LedgerError):
        from semel.ledger.backup.last_backup import advise_restore

        print_error(*filter(None, (str(error), advise_restore(error))))
        return 1
    if isinstance(error, OutcomeUnknown):
        print_error(str(error), f"To be sure, say it again with --id {error.id}: it is accepted at most once.")
        return 1
    return None


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
    message = " ".join(error.format_message().split()).rstrip(".").replace(": Value error, ", ": ")
    if match := _NO_COMMAND.fullmatch(message):
        names = [name for name, item in getattr(command, "commands", {}).items() if not item.hidden]
        return f"there is no command {match[1]!r}{suggest_nearest(match[1], names)}"
    if type(error).__name__ == "NoSuchOption":
        names = [name for item in getattr(command, "params", ()) for name in (*item.opts, *item.secondary_opts)]
        options = [name for name in names if name.startswith("-")]
        if taker := _find_command_with(error.option_name, command):
            return f"the option {error.option_name} belongs after a command, as in: {path} {taker} {error.option_name}"
        if path == "semel init" and error.option_name == "--listen":
            return (
                "the address is not asked here. Give it to the gateway: `semel up --listen ADDRESS`, or write "
                'listen = "ADDRESS" under [gateway] into semel.toml'
            )
        return f"there is no option {error.option_name}{suggest_nearest(error.option_name, options)}"
    if "unexpected extra argument" in message and any(item.name in _TEXTS for item in command.params):
        return f"{message[:1].lower()}{message[1:]}: put a text of several words in quotes"
    message = message.removeprefix("Invalid value: ")  # a command's own check names the option itself
    return f"{message[:1].lower()}{message[1:]}; see {path} --help"
