"""The books: `semel why` traces one event, claim or part; `semel doctor` checks every conservation law."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, app, ask_gateway
from semel.faces.cli.printing import print_json, print_remark, stdout_console
from semel.faces.client import GatewayNotTrusted, NoGateway, quote_segment
from semel.faces.config import locate
from semel.faces.transcript import format_timestamp
from semel.text.visible import visible
from semel.text.wellformed import shorten_to_line


@app.command()
def why(
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="e7 (event), c3 (claim), p12 (part), t5 (turn), SESSION#4 (entry), an event's key or a "
            "platform's message id.",
        ),
    ],
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Print what became of one event, claim, part, turn, entry or platform message, step by step."""
    story = ask_gateway(config, data_dir, lambda client: client.get(f"/v1/why/{quote_segment(id)}"))
    print_json(story) if json else _print_story(story)


@app.command()
def doctor(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Check every law with queries over the whole ledger (the books).

    If no gateway runs, the command reads the ledger itself and changes nothing. The exit code is 1 if a law is broken.
    """
    data, ledger = locate(config, data_dir)
    try:
        report = ask_gateway(config, data_dir, lambda client: client.get("/v1/doctor"))
    except GatewayNotTrusted:
        raise
    except NoGateway:
        report = _read_report(ledger)
        print_remark(f"no gateway is running on {data}; the ledger file was read instead")
    print_json(report) if json else _print_report(report)
    if not report["ok"]:
        raise typer.Exit(1)


def _print_report(report: dict[str, Any]) -> None:
    """Print one line per book, and the first 20 rows that break it."""
    stdout = stdout_console()
    for book in report["books"]:
        mark = Text("ok    ", "green") if book["ok"] else Text("BROKEN", "bold red")
        stdout.print(mark, Text(f" {book['name']:<24}"), Text(book["what"], "dim"))
        for row in book["rows"][:20]:
            stdout.print(Text(f"         {shorten_to_line(str(row), 150)}", "red"))
    facts = ", ".join(f"{key} {value}" for key, value in report.get("ledger", {}).items())
    stdout.print(Text(facts, "dim"))
    broken = sum(not book["ok"] for book in report["books"])
    verdict = f"{broken} of {len(report['books'])} laws are broken" if broken else "all laws hold"
    stdout.print(Text(verdict, "bold red" if broken else "bold green"))


def _print_story(story: dict[str, Any]) -> None:
    """Print one line per step: its time and what happened."""
    stdout = stdout_console()
    for line in story["lines"]:
        stdout.print(
            Text(f"{format_timestamp(line['at']) if line['at'] else '':<19}  ", "dim"),
            Text(visible(line["text"])),
            sep="",
        )


def _read_report(ledger: Path) -> dict[str, Any]:
    """Make the doctor's report from the ledger file itself, which is opened read-only. Raises LedgerError."""
    from semel.gateway.api.reads import audit_report
    from semel.ledger.storage.store import Store

    store = Store.open(ledger, readonly=True)
    try:
        return store.read_sync(audit_report)
    finally:
        store.close()
