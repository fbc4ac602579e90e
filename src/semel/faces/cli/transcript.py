"""Looking at sessions: `semel sessions`, `semel show`, `semel export`."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, Session, app, ask
from semel.faces.cli.out import as_json, complain, console, remark, rows, shorten, when
from semel.faces.safe import visible
from semel.faces.transcript import FORMATS, body, line, marks, speaker

COLOURS = {"user": "bold cyan", "agent": "bold green", "event": "bold blue", "notice": "bold yellow"}


@app.command()
def sessions(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """List the sessions, newest first."""
    found = ask(config, data_dir, lambda client: client.sessions())
    if json:
        as_json(found)
        return
    rows(
        ("SESSION", "STATE", "AGENT", "ENTRIES", "AT", "LAST"),
        ((s["key"], s["state"], s["agent"], s["seq"], when(s["at"]), shorten(s["last"], 60)) for s in found),
        "there are no sessions yet; start one with: semel chat",
    )


@app.command()
def show(
    session: Session,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="Only the newest so many; 0: all.")] = 0,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Show a session's transcript."""
    entries = ask(config, data_dir, lambda client: client.entries(session))[-last:]
    if json:
        as_json(entries)
        return
    for entry in entries:
        if sys.stdout.isatty():
            _pretty(entry)
        else:
            print(line(entry))


def _pretty(entry: dict[str, Any]) -> None:
    head = Text(f"{entry['seq']:>4} ", "dim")
    head.append(visible(speaker(entry)), COLOURS.get(entry["role"], ""))
    head.append(f"  {when(entry['at'])}  {', '.join(marks(entry))}", "dim")
    out = console()
    out.print(head)
    out.print(Padding(Text(visible(body(entry))), (0, 0, 1, 5)), soft_wrap=False)


class Format(StrEnum):
    md = "md"
    jsonl = "jsonl"


@app.command()
def export(
    session: Session,
    format: Annotated[Format, typer.Option("--format", "-f", help="Markdown, or a JSON object a line.")] = Format.md,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of to stdout.")
    ] = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Write a session's transcript as a document."""
    entries = ask(config, data_dir, lambda client: client.entries(session))
    pieces = FORMATS[format.value](session, entries)
    if output is None:
        sys.stdout.writelines(pieces)
        return
    fresh = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
        fresh.replace(output)
    except OSError as error:
        complain(f"{output} cannot be written: {error.strerror}")
        raise typer.Exit(1) from None
    finally:
        fresh.unlink(missing_ok=True)
    remark(f"{len(entries)} entries in {output}")
