"""The outbox: what left, what is on its way, and what waits for a person's word."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from semel.faces.cli.app import Config, DataDir, Json, app, ask
from semel.faces.cli.out import as_json, console, rows, shorten, shown, state, when

outbox = typer.Typer(
    help="What leaves for chat platforms: list it, look at one part, decide about one that is held.",
    no_args_is_help=True,
)
app.add_typer(outbox, name="outbox")

Part = Annotated[str, typer.Argument(metavar="PART", help="A part's id, as printed: p12.")]


def number(ref: str) -> int:
    """The id of a part: p12, as it is printed, or 12."""
    digits = ref.lower().removeprefix("p")
    if not digits.isascii() or not digits.isdigit():
        raise typer.BadParameter(f"{ref!r} is not a part's id, such as p12")
    return int(digits)


@outbox.command("list")
def list_(
    state: Annotated[
        str | None,
        typer.Option(help="Only these: queued, sending, sent, unknown, held, rejected or dropped."),
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """List parts, newest first."""
    parts = ask(config, data_dir, lambda client: client.parts(state))
    if json:
        as_json(parts)
        return
    rows(
        ("PART", "STATE", "DESTINATION", "TRIES", "AT", "TEXT"),
        ((f"p{p['id']}", p["state"], p["dest"], p.get("attempts", 0), when(p.get("at")), _text(p)) for p in parts),
        "nothing has left, and nothing waits to: the page and the terminal have no outgoing leg",
    )


@outbox.command()
def show(part: Part, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Show one part: its text, its state and what the platform gave back."""
    id = number(part)
    found = ask(config, data_dir, lambda client: client.part(id))
    as_json(found) if json else _print(found)


@outbox.command()
def resend(part: Part, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Send a held part again, visibly marked as a repeat."""
    _decide(part, "resend", json, config, data_dir)


@outbox.command()
def arrived(part: Part, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """It did arrive: mark a held part as sent."""
    _decide(part, "arrived", json, config, data_dir)


@outbox.command()
def drop(part: Part, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Never send it: give a held part up."""
    _decide(part, "drop", json, config, data_dir)


def _decide(ref: str, verdict: str, json: bool, config: Config, data_dir: DataDir) -> None:
    id = number(ref)
    part = ask(config, data_dir, lambda client: client.decide(id, verdict))
    as_json(part) if json else console().print(f"p{part['id']}", state(part["state"]))


def _text(part: dict[str, Any]) -> str:
    return shorten(str(part.get("text") or ""), 60)


def _print(part: dict[str, Any]) -> None:
    out = console()
    for key, value in part.items():
        if key == "text" or value is None:
            continue
        told = when(value) if key in ("at", "due", "first") and isinstance(value, int) else value
        out.print(f"{key:>12}  ", state(shown(str(told))), sep="")
    out.print()
    print(shown(str(part.get("text") or "")))
