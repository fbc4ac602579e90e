"""`semel doctor`: check the installation. `semel config check`: check its configuration alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, app, ask_gateway
from semel.faces.cli.printing import name_command, print_error, print_json, print_remark, stdout_console
from semel.faces.client import GatewayNotTrusted, NoGateway
from semel.faces.config import locate_to_read
from semel.ledger.storage.location import LedgerLocation
from semel.text.visible import visible
from semel.text.wellformed import shorten_to_line

if TYPE_CHECKING:
    from semel.faces.health.finding import Finding

config_app = typer.Typer(help="Check the configuration file.", no_args_is_help=True)
app.add_typer(config_app, name="config")

LEVEL_STYLES = {"ok": "green", "warning": "yellow", "broken": "bold red"}


@app.command()
def doctor(
    laws: Annotated[
        bool, typer.Option("--laws", help="Check only the books: list every law, with the rows that break it.")
    ] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Check the installation: configuration, agents, channels, credentials, files, disk, clock and the books.

    Each configured agent is started and opens a session; nothing is sent to a model. If no gateway runs, the command
    reads the ledger itself and changes nothing. With --data-dir and without --config, the configuration is the one that
    the running gateway has read; if none runs, a file in the usual places, or else the one that the last gateway read.
    The exit code is 1 if something is broken; warnings do not count.
    """
    if laws:
        _check_laws(json, config, data_dir)
        return
    from semel.faces.health.doctor import examine

    result = asyncio.run(examine(config, data_dir))
    if json:
        print_json({"ok": result.ok, **asdict(result)})
    else:
        _print_findings(result.findings)
    if not result.ok:
        raise typer.Exit(1)


@config_app.command("check")
def check_configuration(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Check the configuration as `semel up` does, and list all mistakes with their lines.

    Nothing is started. With --data-dir and without --config, the file is the one that the running gateway there has
    read; if none runs, a file in the usual places, or else the one that the last gateway read. The exit code is 2 if
    there is a mistake; warnings do not count.
    """
    from semel.faces.health.configuration import advise_on_variables, check_config, count_parts, follow_gateway
    from semel.faces.health.session_agents import describe_missing_agents

    checked = check_config(*follow_gateway(config, data_dir))
    warnings = [*checked.warnings, *checked.agent_warnings]
    if checked.config is not None:
        warnings += describe_missing_agents(checked.config)
    if json:
        file = None if checked.path is None else str(checked.path)
        messages = {"problems": checked.problems, "warnings": warnings, "notes": checked.notes}
        print_json({"ok": not checked.problems, "file": file, **messages})
    else:
        print_error(*checked.problems)
        if advice := advise_on_variables(checked.problems):
            print_remark(advice)
        for warning in warnings:
            stdout_console().print(Text("warning:", "yellow"), Text(visible(warning)))
        for note in checked.notes:
            print(visible(note))
        if checked.config is not None:
            print(f"OK: {checked.name}: {count_parts(checked.config)}")
    if checked.problems:
        raise typer.Exit(2)


def _print_findings(findings: Iterable[Finding]) -> None:
    """Print one line per finding, what to do below it, and the verdict."""
    findings = list(findings)
    stdout = stdout_console()
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        word = "BROKEN" if finding.level == "broken" else finding.level
        subject, text = visible(finding.subject).ljust(width), visible(name_command(finding.text))
        stdout.print(Text(f"{word:<8}", LEVEL_STYLES[finding.level]), Text(f"{subject}  {text}"))
        if finding.remedy and finding.level != "ok":
            stdout.print(Text(f"{'':<{width + 11}}to do: {visible(name_command(finding.remedy))}"))
    counts = {level: sum(finding.level == level for finding in findings) for level in ("broken", "warning")}
    warnings = f"{counts['warning']} warning{'' if counts['warning'] == 1 else 's'}"
    if counts["broken"]:
        stdout.print(Text(f"{counts['broken']} broken, {warnings}", "bold red"))
    else:
        stdout.print(Text("all is well" if not counts["warning"] else f"nothing is broken; {warnings}", "bold green"))


# ---------------------------------------------------------------- the books


def _check_laws(json: bool, config: Path | None, data_dir: Path | None) -> None:
    data, ledger, _ = locate_to_read(config, data_dir)
    try:
        report = ask_gateway(config, data_dir, lambda client: client.get("/v1/doctor"))
    except GatewayNotTrusted:
        raise
    except NoGateway:
        report = _read_report(ledger)
        print_remark(f"no gateway is running on {data}; the ledger was read instead")
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


def _read_report(ledger: LedgerLocation) -> dict[str, Any]:
    """Make the doctor's report from the ledger itself, which is opened read-only. Raises LedgerError."""
    from semel.gateway.api.reads import audit_report
    from semel.ledger.engines import open_readonly

    store = open_readonly(ledger)
    try:
        return store.read_sync(audit_report)
    finally:
        store.close()
