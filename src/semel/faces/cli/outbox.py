"""`semel outbox`: list outgoing parts, show one, and decide about held and rejected ones (Law 7)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from semel.faces.cli.app import Config, DataDir, Json, app, ask_gateway
from semel.faces.cli.offline import OfflineLedger, Reader, ask_or_read
from semel.faces.cli.printing import (
    escape_text,
    format_time,
    print_json,
    print_remark,
    print_table,
    stdout_console,
    style_state,
)
from semel.faces.client import RequestRefused
from semel.text.wellformed import shorten_to_line

outbox = typer.Typer(
    help="List and show the parts that leave for chat platforms, and decide about held and rejected ones.",
    no_args_is_help=True,
)
app.add_typer(outbox, name="outbox")

MAX_PAGE = 1000  # how many parts are read at once
MAX_LISTED_CHARS = 60  # of a text or a reason in the listing; `semel outbox show` prints all of it

Parts = Annotated[
    list[str],
    typer.Argument(
        metavar="PART...",
        help="Ids of held parts, like p12 p13. They are decided in this order, until one is not held.",
    ),
]
HeldOrRejectedParts = Annotated[
    list[str],
    typer.Argument(
        metavar="PART...",
        help="Ids of held or rejected parts, like p12 p13. They are decided in this order, until one is neither.",
    ),
]
Part = Annotated[str, typer.Argument(metavar="PART", help="A part's id, as printed: p12.")]


def parse_part_id(ref: str) -> int:
    """Parse the id of a part: "p12", as printed, or "12". Raises typer.BadParameter."""
    digits = ref.lower().removeprefix("p")
    if not digits.isascii() or not digits.isdigit():
        raise typer.BadParameter(f"{ref!r} is not a part's id, such as p12")
    return int(digits)


@outbox.command("list")
def list_(
    state: Annotated[
        str | None,
        typer.Option(help="Only parts in this state: queued, sending, sent, unknown, held, rejected or dropped."),
    ] = None,
    number: Annotated[
        int, typer.Option("--last", "-n", min=0, metavar="N", help="Only the newest N parts, after the held ones.")
    ] = 100,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """List parts: first the held parts, which wait for your decision, then the others, newest first.

    TRIES counts the attempts to send a part, from 0 again after 'semel outbox resend'; 'semel why' lists them all.
    NEXT TRY is when a part is sent or looked up next. REASON says why it is held, rejected or not sent yet.
    If no gateway runs, the ledger itself is read.
    """
    parts, held = ask_or_read(config, data_dir, partial(_read_parts, state, number))
    if json:
        print_json(parts[:number])
        return
    others = [part for part in parts if state is not None or part["state"] != "held"]
    parts = (held if state is None else []) + others[:number]
    print_table(
        ("PART", "STATE", "DESTINATION", "TRIES", "AT", "TEXT", "NEXT TRY", "REASON"),
        (
            (
                f"p{item['id']}",
                _format_state(item),
                item["dest"],
                item.get("attempts", 0),
                format_time(item.get("at")),
                _format_text(item),
                format_time(item.get("due")),
                shorten_to_line(_describe_reason(item), MAX_LISTED_CHARS),
            )
            for item in parts
        ),
        "no parts yet: the page and the terminal need none" if state is None else f"no part is {state}",
        wrapped_columns=("PART", "DESTINATION"),
    )
    if rejected := [part for part in parts if part["state"] == "rejected"]:
        print_remark(f"{len(rejected)} rejected: they did not arrive. {format_rejected_help(choose_example(rejected))}")
    if len(others) > number:
        print_remark(f"there are more than the newest {number}; -n N lists N")
    if held:
        print_remark(f"{len(held)} held: nobody knows whether they arrived. {format_held_help(choose_example(held))}")


async def _read_parts(
    state: str | None, number: int, reader: Reader
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the newest parts in `state`, or in any, and those of the held ones that are to be shown.

    These are more than `number`, besides held ones, if there are more.
    """
    if state is not None:
        parts = await _read_newest(state, number + 1, reader)
        return parts, [part for part in parts[:number] if part["state"] == "held"]
    held = await _read_newest("held", MAX_PAGE, reader)
    return await _read_newest(None, number + 1 + len(held), reader), held


async def _read_newest(state: str | None, number: int, reader: Reader) -> list[dict[str, Any]]:
    """Return the newest `number` parts in `state`, or in any."""
    parts: list[dict[str, Any]] = []
    while len(parts) < number:
        limit, before = min(number - len(parts), MAX_PAGE), parts[-1]["id"] if parts else None
        page: list[dict[str, Any]] = (
            await reader.list_parts(state, limit, before)
            if isinstance(reader, OfflineLedger)
            else (await reader.get("/v1/parts", state=state, limit=limit, before=before))["parts"]
        )
        parts += page
        if len(page) < limit:
            break
    return parts


def choose_example(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the oldest of `parts`, newest first, that can be sent again; the oldest of all if none can."""
    return next((part for part in reversed(parts) if not part.get("over")), parts[-1])


def format_held_help(part: dict[str, Any]) -> str:
    """Say how a person decides about held parts, of which `part` is one."""
    lines = [
        "Look there, then decide, about one part or several:",
        f"  semel outbox arrived p{part['id']}   it is there",
        f"  semel outbox resend p{part['id']}    it is not: send it again, marked as a repeat",
        f"  semel outbox drop p{part['id']}      never mind",
    ]
    if part.get("over"):
        lines[2] = f"  {_OVER_REMARK}"
    return "\n".join(lines)


def format_rejected_help(part: dict[str, Any]) -> str:
    """Say how a person decides about rejected parts, of which `part` is one."""
    resend, drop = (f"semel outbox {verdict} p{part['id']}" for verdict in ("resend", "drop"))
    if part.get("over"):
        return f"{_OVER_REMARK.capitalize()}. Give it up: {drop}"
    return f"Once the cause is removed, send it again: {resend}, or give it up: {drop}"


_OVER_REMARK = "what it asks for is over, so it is not sent again"


@outbox.command()
def show(part: Part, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Show one part: its text, its state, its attempts and the platform's answer.

    If no gateway runs, the ledger itself is read.
    """
    part_found = ask_or_read(config, data_dir, partial(_read_part, parse_part_id(part)))
    print_json(part_found) if json else _print_part(part_found)


async def _read_part(id: int, reader: Reader) -> dict[str, Any]:
    if isinstance(reader, OfflineLedger):
        return await reader.read_part(id)
    part: dict[str, Any] = await reader.get(f"/v1/parts/{id}")
    return part


@outbox.command()
def resend(parts: HeldOrRejectedParts, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Send held or rejected parts again, at the end of their destination's queue.

    A held part may have arrived, so it is visibly marked as a repeat. A rejected part did not arrive: first remove the
    cause, which 'semel outbox show' names.
    """
    _decide_parts(parts, "resend", json, config, data_dir)


@outbox.command()
def arrived(parts: Parts, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Mark held parts as sent, because they arrived."""
    _decide_parts(parts, "arrived", json, config, data_dir)


@outbox.command()
def drop(parts: HeldOrRejectedParts, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Give up held or rejected parts: they are not sent, and nothing names them any more as undelivered."""
    _decide_parts(parts, "drop", json, config, data_dir)


def _decide_parts(part_ids: list[str], verdict: str, json: bool, config: Config, data_dir: DataDir) -> None:
    """Decide about parts one by one, in the order given, so that resent parts leave in that order."""
    ids, decided = [parse_part_id(ref) for ref in part_ids], []
    try:
        for id in ids:
            decided.append(_decide_part(id, verdict, config, data_dir))
            if not json:
                stdout_console().print(f"p{id}", style_state(decided[-1]["state"]))
    finally:  # if one part fails, print the decisions made before it
        if json and decided:
            print_json(decided if len(ids) > 1 else decided[0])


def _decide_part(id: int, verdict: str, config: Config, data_dir: DataDir) -> dict[str, Any]:
    try:
        return ask_gateway(config, data_dir, lambda client: client.post(f"/v1/parts/{id}/{verdict}", {}))
    except RequestRefused as error:
        raise RequestRefused(error.status, error.code, f"p{id}: {error}") from None


def _format_state(part: dict[str, Any]) -> str:
    return "failed later" if part.get("failed") else str(part["state"])


def _describe_reason(part: dict[str, Any]) -> str:
    """Say why a part is held, rejected or not sent yet; "" if no reason is known."""
    behind = f"behind p{part['behind']}, which leaves first" if part.get("behind") else ""
    over = "over: " if part.get("over") else ""
    return f"{over}{part.get('error') or behind}"


def _format_text(part: dict[str, Any]) -> str:
    kind = part.get("kind", "post")
    text = " ".join([*(() if kind == "post" else (f"[{kind}]",)), str(part.get("text") or "")])
    return shorten_to_line(text, MAX_LISTED_CHARS)


_ID_LETTERS = {"id": "p", "behind": "p", "claim": "c", "failed": "e"}
"""The fields of a part that are ids, and the letters with which all commands take and print them."""


def _print_part(part: dict[str, Any]) -> None:
    out = stdout_console()
    for key, value in part.items():
        if key == "text" or value is None:
            continue
        text = format_time(value) if key in ("at", "due", "first") and isinstance(value, int) else value
        if key in _ID_LETTERS:
            text = f"{_ID_LETTERS[key]}{value}"
        out.print(f"{key:>12}  ", style_state(escape_text(str(text))), sep="")
    out.print()
    print(escape_text(str(part.get("text") or "")))
    if part.get("failed"):
        print_remark(f"It was sent, and its platform reported later that it failed: see 'semel why e{part['failed']}'.")
    if part["state"] == "rejected":
        print_remark(f"It was rejected: it did not arrive. {format_rejected_help(part)}")
    if part["state"] == "held":
        print_remark(f"It is held: nobody knows whether it arrived. {format_held_help(part)}")
