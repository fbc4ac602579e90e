"""What `semel init` is told, by options or by questions on a terminal. Ctrl-C at a question writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from semel.faces.cli.printing import print_error
from semel.faces.config.setup import REFERENCES
from semel.text.visible import visible


class Choice(NamedTuple):
    """One line of a menu."""

    name: str
    remark: str


def ask_choice(question: str, choices: Sequence[Choice], more: Sequence[str] = ()) -> str:
    """Ask for one of the choices, by its number or name; the first is the default. Names in `more` are taken, too."""
    menu = Table.grid(padding=(0, 2, 0, 0))
    for number, choice in enumerate(choices, 1):
        menu.add_row(Text(f"  {number}"), Text(choice.name, no_wrap=True), Text(visible(choice.remark)))
    out = Console(highlight=False)
    out.print(f"\n{question}\n")
    out.print(menu)
    names = [choice.name for choice in choices]
    while True:
        answer = ask_text("\nNumber or name", default="1")
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]
        if matching_names := [name for name in (*names, *more) if name.lower() == answer.lower()]:
            return matching_names[0]
        print_error(f"choose a number from 1 to {len(names)}, or a name from the list")


def ask_text(question: str, *, default: str | None = None, hidden: bool = False) -> str:
    """Ask for a line of text, without blanks around it; "" only if that is the default. `hidden`: do not show it."""
    shown_default = default not in (None, "")
    while True:
        answer = typer.prompt(question, default=default or "", hide_input=hidden, show_default=shown_default)
        if (text := str(answer).strip()) or default == "":
            return text
        print_error("an answer is needed; Ctrl-C ends this, and nothing is written")


def ask_yes_or_no(question: str, default: bool = True, *, hidden: bool = False) -> bool:
    """Ask a question. `hidden`: do not show what is typed, because a secret may be pasted at a question about one."""
    if not hidden:
        return typer.confirm(question, default=default)
    while True:
        answer = ask_text(f"{question} [{'Y/n' if default else 'y/N'}]", default="", hidden=True).lower()
        if answer in ("", "y", "yes", "n", "no"):
            return default if not answer else answer.startswith("y")
        print_error(
            "that was not taken, and is not shown: answer this question with y or n; secrets are asked for by name"
        )


# ---------------------------------------------------------------- options


@dataclass
class Options:
    """What was given on the command line. `asks`: whether a person at a terminal is asked for the rest."""

    agent: str | None
    model: str | None
    base_url: str | None
    key: str | None
    channel: str | None
    settings: dict[str, str]
    name: str | None
    account: str | None
    asks: bool


def read_settings(settings: list[str] | None) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in settings or ()]
    if wrong := next((key for key, equals, _ in pairs if not equals or not key), None):
        exit_wrong_usage(f"--set {wrong}: write KEY=VALUE, such as token=env:TELEGRAM_TOKEN")
    return {key: value for key, _, value in pairs}


def exit_wrong_usage(problem: str) -> NoReturn:
    print_error(problem)
    raise typer.Exit(2)


def check_reference(option: str, value: str) -> None:
    """Refuse a secret on the command line, which other users of the machine and the shell's history can see."""
    if not value.startswith(REFERENCES):
        exit_wrong_usage(f"{option} would show a secret to others: name where it is, as env:NAME or file:PATH")
