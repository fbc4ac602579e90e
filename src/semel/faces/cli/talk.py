"""`semel chat` and `semel say`."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer

from semel.faces.busy import told
from semel.faces.cli.app import DEFAULT_SESSION, Config, DataDir, Json, Session, app, ask
from semel.faces.cli.out import as_json, complain, remark, shown
from semel.faces.client import Client
from semel.faces.config import locate
from semel.faces.wait import TurnAnswer, wait_for_answer
from semel.law.busy import MODES


def get_login_name() -> str:
    """The sender's name for messages from this terminal: the login name, or "terminal"."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "terminal"


def check_busy_mode(mode: str | None, *others: str) -> str | None:
    """Check the name of a busy mode (or one of `others`) and return it; `None` passes. Exits with 2 and a list."""
    if mode is not None and mode not in (*MODES, *others):
        complain(f"{mode!r} is not one of {', '.join((*MODES, *others))}")
        raise typer.Exit(2)
    return mode


@app.command()
def chat(
    session: Annotated[str, typer.Argument(metavar="[SESSION]", help="A session's key.")] = DEFAULT_SESSION,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a full screen.")] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Talk to an agent in this terminal.

    Full screen on a terminal; lines where the output or the input is a pipe, or with --plain.
    """
    data = locate(config, data_dir)[0]
    if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        from semel.faces.terminal.lines import run_lines

        raise typer.Exit(run_lines(data, session, get_login_name()))
    from semel.faces.terminal.app import run_chat

    raise typer.Exit(run_chat(data, session, get_login_name()))


@app.command()
def say(
    session: Session,
    text: Annotated[str, typer.Argument(metavar="TEXT", help='What to say; "-" reads it from stdin.')],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for the answer and print it.")] = False,
    sender: Annotated[str | None, typer.Option(help="Who says it. Default: your login name.")] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="A key for this message: said again with it, it is heard once.")
    ] = None,
    busy: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help=f"What becomes of it while the session is busy: {', '.join(MODES)}. Default: the session's mode.",
        ),
    ] = None,
    automatic: Annotated[
        bool, typer.Option("--automatic", help="A program says it: by itself it asks for no turn.")
    ] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Say something in a session; a new key starts a new session.

    Returns when the message is in the ledger. With --wait: when the turn it caused is over, with its text on
    stdout and notices on stderr; the exit code is 1 if the turn failed.
    """
    words = sys.stdin.read() if text == "-" else text
    if not words.strip():
        complain("there is nothing to say: the text is empty")
        raise typer.Exit(2)

    mode = check_busy_mode(busy)

    async def go(client: Client) -> tuple[dict[str, object], TurnAnswer | None]:
        heard = await client.say(
            session, words, sender=sender or get_login_name(), id=id, busy=mode, automatic=automatic
        )
        if wait and (what := told(heard)):
            remark(what)
        return heard, await wait_for_answer(client, session, heard["event"], remark) if wait else None

    heard, answer = ask(config, data_dir, go)
    if json:
        as_json({**heard, **({"entries": answer.entries, "failed": answer.failed} if answer else {})})
    elif answer is None:
        what = told(heard)
        remark(f"{heard['status']}: e{heard['event']}" + (f" ({what})" if what else ""))
    else:
        print(shown("\n\n".join(answer.texts)))
    if answer is not None and answer.failed:
        complain(f"the turn failed: {answer.failed}")
        raise typer.Exit(1)
