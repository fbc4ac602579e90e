"""`semel outbox`: list outgoing parts, show one, and decide about held ones (Law 7)."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from semel.faces.cli.app import Config, DataDir, Json, app, ask
from semel.faces.cli.out import as_json, console, remark, rows, shown, state, when
from semel.faces.client import RequestRefused
from semel.text.shorten import shorten_to_line

outbox = typer.Typer(
    help="What leaves for chat platforms: list it, look at one part, decide about one that is held.",
    no_args_is_help=True,
)
app.add_typer(outbox, name="outbox")

Parts = Annotated[list[str], typer.Argument(metavar="PART...", help="Ids of parts, as printed: p12 p13.")]
Part = Annotated[str, typer.Argument(metavar="PART", help="A part's id, as printed: p12.")]


def number(ref: str) -> int:
    """Parse the id of a part: "p12", as printed, or "12". Raises typer.BadParameter."""
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
    """List parts, newest first; before all others those that are held, and wait for your word."""
    parts = ask(config, data_dir, lambda client: client.parts(state))
    if json:
        as_json(parts)
        return
    held = [part for part in parts if part["state"] == "held"]
    if state is None:
        held = ask(config, data_dir, lambda client: client.parts("held"))
        parts = held + [part for part in parts if part["state"] != "held"]
    rows(
        ("PART", "STATE", "DESTINATION", "TRIES", "AT", "TEXT"),
        ((f"p{p['id']}", _state(p), p["dest"], p.get("attempts", 0), when(p.get("at")), _text(p)) for p in parts),
        "nothing has left, and nothing waits to: the page and the terminal have no outgoing leg"
        if state is None
        else f"no part is {state}",
        whole=("PART", "DESTINATION"),
    )
    if held:
        part = f"p{held[-1]['id']}"
        remark(f"{len(held)} held: nobody knows whether they arrived. {_HELD_HELP.format(part=part)}")


_HELD_HELP = (
    "Look there, then say, of one part or several:\n"
    "  semel outbox arrived {part}   it is there\n"
    "  semel outbox resend {part}    it is not: it leaves again, as a repeat\n"
    "  semel outbox drop {part}      never mind"
)


@outbox.command()
def show(part: Part, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Show one part: its text, its state and what the platform gave back."""
    id = number(part)
    found = ask(config, data_dir, lambda client: client.part(id))
    as_json(found) if json else _print(found)


@outbox.command()
def resend(parts: Parts, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Send held parts again, visibly marked as a repeat."""
    _decide(parts, "resend", json, config, data_dir)


@outbox.command()
def arrived(parts: Parts, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """They did arrive: mark held parts as sent."""
    _decide(parts, "arrived", json, config, data_dir)


@outbox.command()
def drop(parts: Parts, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Never send them: give held parts up."""
    _decide(parts, "drop", json, config, data_dir)


def _decide(refs: list[str], verdict: str, json: bool, config: Config, data_dir: DataDir) -> None:
    """Decide about parts one by one, in the order given, so that resent parts leave in that order."""
    ids, done = [number(ref) for ref in refs], []
    try:
        for id in ids:
            done.append(_one(id, verdict, config, data_dir))
            if not json:
                console().print(f"p{id}", state(done[-1]["state"]))
    finally:  # if one part fails, print the decisions made before it
        if json and done:
            as_json(done if len(ids) > 1 else done[0])


def _one(id: int, verdict: str, config: Config, data_dir: DataDir) -> dict[str, Any]:
    try:
        return ask(config, data_dir, lambda client: client.decide(id, verdict))
    except RequestRefused as no:
        raise RequestRefused(no.status, no.code, f"p{id}: {no}") from None


def _state(part: dict[str, Any]) -> str:
    return "failed later" if part.get("failed") else str(part["state"])


def _text(part: dict[str, Any]) -> str:
    kind = part.get("kind", "post")
    told = " ".join([*(() if kind == "post" else (f"[{kind}]",)), str(part.get("text") or "")])
    return shorten_to_line(told, 60)


def _print(part: dict[str, Any]) -> None:
    out = console()
    for key, value in part.items():
        if key == "text" or value is None:
            continue
        told = when(value) if key in ("at", "due", "first") and isinstance(value, int) else value
        out.print(f"{key:>12}  ", state(shown(str(told))), sep="")
    out.print()
    print(shown(str(part.get("text") or "")))
    if part.get("failed"):
        remark(f"It was sent, and its platform told later that it failed: 'semel why e{part['failed']}' tells more.")
    if part["state"] == "held":
        remark(f"It is held: nobody knows whether it arrived. {_HELD_HELP.format(part='p' + str(part['id']))}")
