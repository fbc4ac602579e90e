"""The books: `semel why` traces one event, claim or part; `semel doctor` checks every conservation law."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, app, ask
from semel.faces.cli.out import as_json, console, remark
from semel.faces.client import AnotherUsers, NoGateway
from semel.faces.config import locate
from semel.faces.transcript import stamp
from semel.text.shorten import shorten_to_line
from semel.text.visible import visible


@app.command()
def why(
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="e7 (event), c3 (claim), p12 (part), t5 (turn), SESSION#4 (entry), an event's key, or a "
            "platform's message id.",
        ),
    ],
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Tell the story of one event, claim, part or platform message."""
    story = ask(config, data_dir, lambda client: client.why(id))
    as_json(story) if json else _tell(story)


@app.command()
def doctor(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Run the books: every law of conservation, over the whole ledger.

    Asks the running gateway; where none runs, reads the ledger itself and changes nothing. Exit code 1 if a
    law is broken.
    """
    data, ledger = locate(config, data_dir)
    try:
        report = ask(config, data_dir, lambda client: client.doctor())
    except AnotherUsers:
        raise
    except NoGateway:
        report = _offline(ledger)
        remark(f"no gateway is running on {data}; the ledger was read by itself")
    as_json(report) if json else _report(report)
    if not report["ok"]:
        raise typer.Exit(1)


def _report(report: dict[str, Any]) -> None:
    """Print one line per book, and the first 20 rows that break it."""
    out = console()
    for book in report["books"]:
        mark = Text("ok    ", "green") if book["ok"] else Text("BROKEN", "bold red")
        out.print(mark, Text(f" {book['name']:<24}"), Text(book["what"], "dim"))
        for row in book["rows"][:20]:
            out.print(Text(f"         {shorten_to_line(str(row), 150)}", "red"))
    facts = ", ".join(f"{key} {value}" for key, value in report.get("ledger", {}).items())
    out.print(Text(facts, "dim"))
    broken = sum(not book["ok"] for book in report["books"])
    verdict = f"{broken} of {len(report['books'])} laws are broken" if broken else "all laws hold"
    out.print(Text(verdict, "bold red" if broken else "bold green"))


def _tell(story: dict[str, Any]) -> None:
    """Print one line per step: its time and what happened."""
    out = console()
    for line in story["lines"]:
        out.print(Text(f"{stamp(line['at']) if line['at'] else '':<19}  ", "dim"), Text(visible(line["text"])), sep="")


def _offline(ledger: Path) -> dict[str, Any]:
    """The doctor's report, read from the ledger file itself, which is opened read-only. Raises LedgerError."""
    from semel.gateway.api.reads import report
    from semel.ledger.storage.store import Store

    store = Store.open(ledger, readonly=True)
    try:
        return store.look(report)
    finally:
        store.close()
