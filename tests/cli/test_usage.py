"""Wrong usage is one line on stderr and exit code 2: where, what, and the nearest thing that is there."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import pytest
from cli_house import Cli

from semel.faces.cli import build_command


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("outbocks", "there is no command 'outbocks'; did you mean \"outbox\"?"),
        ("stauts", "there is no command 'stauts'; did you mean \"status\"?"),
        ("xyzzy", "there is no command 'xyzzy'; known: "),
        ("config chek", "config: there is no command 'chek'; did you mean \"check\"?"),
        ("outbox lst", "outbox: there is no command 'lst'; did you mean \"list\"?"),
        ("say main hi --idd x", 'say: there is no option --idd; did you mean "--id"?'),
        ("outbox list --stat held", 'outbox list: there is no option --stat; did you mean "--state"?'),
        ("init --listen 0.0.0.0:8420", "init: the address is not asked here. Give it to the gateway: "),
        ("say -x", "say: there is no option -x; known: "),
        ("say", "say: missing argument"),
        ("say main hi more", "say: got unexpected extra argument(s) (more): put a text of several words in quotes"),
        ("show main more", "show: got unexpected extra argument(s) (more); see semel show --help"),
        ("say main hi --id", "requires an argument"),
        ("say main hi --wait=3", "does not take a value"),
        ("say main hi --busy never", "'never' is not one of "),
        ("show main -n x", "'-n'"),
        ("logs --level warn", "logs: invalid value for '--level': 'warn' is not one of 'info', 'warning', 'error'"),
        ("outbox drop e1", "is not a part's id"),
        ("exec", "exec: give a command after --, or one of --flush, --list and --drop"),
        ("--config x.toml up", "the option --config belongs after a command, as in: semel "),
        ("--nonsense", "there is no option --nonsense; known: "),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(cli: Cli, typed: str, told: str) -> None:
    done = cli(*typed.split(), rc=2)
    assert done.stdout == ""
    assert done.stderr.startswith("semel: ") and done.stderr.count("\n") == 1, done.stderr
    assert told in done.stderr


def test_what_is_asked_for_is_shown(cli: Cli) -> None:
    assert cli("--version").stdout.startswith("semel ")
    assert "--wait" in cli("say", "--help").stdout
    assert "list" in cli("outbox", rc=2).stdout
    assert cli("outbox", rc=2).stderr == ""


def test_help_is_also_a_command(cli: Cli) -> None:
    assert cli("help").stdout == cli("--help").stdout
    assert cli("help", "say").stdout == cli("say", "--help").stdout
    assert cli("help", "outbox", "drop").stdout == cli("outbox", "drop", "--help").stdout
    assert "there is no command 'sya'; did you mean \"say\"?" in cli("help", "sya", rc=2).stderr


def test_no_paragraph_of_a_help_is_broken_before_the_terminal_is_full() -> None:
    commands, seen = [build_command(None)], 0
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        paragraphs = command.help.split("\n\n")
        seen += len(paragraphs)
        assert not [paragraph for paragraph in paragraphs if "\n" in paragraph], command.name
    assert seen > 50


def test_the_help_of_a_flag_shows_no_type() -> None:
    def list_helps(command: Any) -> Iterator[str]:
        context = command.context_class(command, help_option_names=["--help"])
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            command.get_help(context)
        yield shown.getvalue()
        for inner in getattr(command, "commands", {}).values():
            yield from list_helps(inner)

    helps = list(list_helps(build_command(None)))
    assert sum("--json" in text for text in helps) > 20 and not any("<bool>" in text for text in helps)
