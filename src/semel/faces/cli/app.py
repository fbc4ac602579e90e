"""The typer app, and what all commands share: options that locate the gateway, and a call to it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from datetime import time as daytime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from semel import __version__
from semel.faces.cli.printing import remember_option
from semel.faces.config import locate_running
from semel.timing.durations import parse_duration

if TYPE_CHECKING:
    from semel.faces.client import AsyncClient

T = TypeVar("T")

app = typer.Typer(
    help="A gateway between people and AI agents. It records and shows every message once, never sends one twice, "
    "and never loses one silently.",
    epilog="Start it with: semel up. Read about it with: semel docs. Most other commands talk to the running gateway; "
    "restore and ledger copy need it stopped.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _remember_config(value: Path | None) -> Path | None:
    return remember_option("--config", value)


def _remember_data_dir(value: Path | None) -> Path | None:
    return remember_option("--data-dir", value)


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        readable=False,  # the command explains better than typer why it cannot be read
        callback=_remember_config,
        help="The semel.toml to use. Default: $SEMEL_CONFIG, ./semel.toml, ~/.config/semel/semel.toml.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        readable=False,
        callback=_remember_data_dir,
        help="Where the gateway keeps its data. Default: $SEMEL_DATA, then the configuration's data_dir, "
        "then ~/.local/share/semel.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Session = Annotated[str, typer.Argument(metavar="SESSION", help="A session's key, such as main:web:me.")]

DEFAULT_SESSION = "main"


def parse_time(option: str, text: str | None) -> int | None:
    """Parse an age like `2h`, or a local date, clock time or both, to ms since the epoch. Raises typer.BadParameter.

    A clock time is the last one of that name: of today or, if that is still to come, of yesterday.
    """
    if text is None:
        return None
    age = parse_duration(text) if text[-1:].isalpha() else None
    try:
        seconds = (
            _parse_local(text, datetime.now().astimezone().replace(tzinfo=None)).timestamp()
            if age is None
            else time.time() - age
        )
        return max(0, round(seconds * 1000))
    except (ValueError, OverflowError, OSError):
        ways = "2h, 7d, 18:12, 2026-11-22 or '2026-11-22 07:30'"
        raise typer.BadParameter(f"{option} is {text!r}: say {ways}") from None


def _parse_local(text: str, now: datetime) -> datetime:
    """Parse a local date, clock time or both. Raises ValueError. `now`: in local time."""
    clock = re.fullmatch(r"(\d{1,2}):(\d\d)(?::(\d\d))?", text.strip(), re.ASCII)
    if clock is None:
        return datetime.fromisoformat(text)
    hour, minute, second = (int(number or 0) for number in clock.groups())
    today = datetime.combine(now, daytime(hour, minute, second))
    return today if today <= now else today - timedelta(days=1)


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"semel {__version__}")
        raise typer.Exit


@app.callback()
def semel(
    show_version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What every command has in common."""


@app.command("help", hidden=True)  # for people who try it; the help of `semel` itself names --help
def show_help(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="The command.")] = None,
) -> None:
    """Show the help of a command, as its --help does."""
    context.find_root().command.main([*(words or ()), "--help"], prog_name="semel", standalone_mode=False)


def ask_gateway(config: Path | None, data_dir: Path | None, call: Callable[[AsyncClient], Awaitable[T]]) -> T:
    """Return the result of `call`, run with a client of the running gateway. Raises NoGateway if none answers."""
    from semel.faces.client import AsyncClient

    async def go() -> T:
        async with AsyncClient(locate_running(config, data_dir)) as client:
            return await call(client)

    return asyncio.run(go())
