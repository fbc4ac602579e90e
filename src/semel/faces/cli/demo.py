"""`semel demo`: play what goes wrong elsewhere, against a gateway of its own, and show what is there afterwards."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from semel.faces.cli.app import app
from semel.faces.cli.printing import count_of, print_error, print_labelled, print_remark, stdout_console
from semel.text.visible import visible

if TYPE_CHECKING:
    from semel.faces.demonstration.cases import Case
    from semel.faces.demonstration.stage import Stage
    from semel.text.json_types import Json

LABEL_WIDTH = 13


@app.command("demo")
def play_demo(
    case: Annotated[
        Literal["echo", "completion", "redelivery", "cut", "kill"] | None,
        typer.Argument(metavar="[CASE]", help="One case: echo, completion, redelivery, cut or kill. Default: all."),
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="Print the link of the page, and wait for Enter before and after each case.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder with the ledger, and print its path.")] = False,
) -> None:
    """Show what goes wrong elsewhere and holds here: echoes, repeats, cut streams, `kill -9`.

    It starts a gateway of its own, with a scripted agent and a simulated Telegram, in a folder that it removes at the
    end. It needs no network and no agent, and touches no other gateway. Each case is played for real; what is printed
    after it was counted in the ledger, in the chat, and in what the agent noted. The exit code is 1 if a case does not
    hold.
    """
    from semel.faces.demonstration.cases import CASES, SCRIPTS
    from semel.faces.demonstration.stage import Stage, StageError

    if page and not sys.stdin.isatty():
        raise typer.BadParameter("--page waits for Enter, and needs a terminal")
    chosen = [one for one in CASES if case in (None, one.name)]
    with _open_folder(keep) as folder, _end_like_interrupted():
        print_remark("starting a gateway, an agent and a chat ...")
        try:
            with Stage(folder, SCRIPTS) as stage:
                held = [_show_case(stage, one, number, page) for number, one in enumerate(chosen, 1)]
        except StageError as error:
            print_error(str(error))
            raise typer.Exit(1) from None
    failed = [one.name for one, holds in zip(chosen, held, strict=True) if not holds]
    if failed:
        stdout_console().print(Text(f"does not hold: {', '.join(failed)}", "bold red"))
        raise typer.Exit(1)
    stdout_console().print(Text(count_of(len(held), "case holds", "cases hold"), "bold green"))


def _show_case(stage: Stage, case: Case, number: int, page: bool) -> bool:
    """Play a case and print it. Returns whether it holds, and all books with it."""
    out = stdout_console()
    out.print(Text(f"{number}  {case.name}", "bold"))
    _print_row("happens", Text(case.happens))
    _print_row("elsewhere", Text(case.elsewhere, "yellow"))
    if page:
        _print_row("page", Text(stage.find_page(case.session)))
        _wait_for_enter("Enter plays it ...")
    counts = case.play(stage)
    for position, count in enumerate(counts):
        _print_row("" if position else "here", _mark_row(count.holds, str(count)))
    report = stage.read_books()
    _print_row("books", _describe_books(report))
    if page:
        _wait_for_enter("Enter goes on ...")
    out.print()
    return report["ok"] and all(count.holds for count in counts)


def _print_row(label: str, text: Text) -> None:
    print_labelled(f"   {label}", text, LABEL_WIDTH)


def _describe_books(report: Json) -> Text:
    broken = [book["name"] for book in report["books"] if not book["ok"]]
    rows = ", ".join(f"{name} {number}" for name, number in report["ledger"].items())
    return _mark_row(not broken, ", ".join(broken) or f"{len(report['books'])} laws hold: {rows}")


def _mark_row(holds: bool, text: str) -> Text:
    return Text.assemble(("ok", "green") if holds else ("BROKEN", "bold red"), " ", visible(text))


def _wait_for_enter(prompt: str) -> None:
    print_remark(prompt)
    sys.stdin.readline()


@contextmanager
def _open_folder(keep: bool) -> Iterator[Path]:
    """Make a folder, and remove it at the end unless `keep`; then print where it is."""
    with ExitStack() as stack:
        if keep:
            folder = Path(tempfile.mkdtemp(prefix="semel-demo-"))
            stack.callback(print_remark, f"kept: {folder}. Look into it with: semel sessions --data-dir {folder}/data")
        else:
            made = tempfile.TemporaryDirectory(prefix="semel-demo-", ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
        yield folder


@contextmanager
def _end_like_interrupted() -> Iterator[None]:
    """Let SIGTERM, and a closed terminal, end the demonstration as Ctrl-C does, so that it leaves nothing behind."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:  # nohup ignores SIGHUP, and that stays so
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
