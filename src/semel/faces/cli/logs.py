"""`semel logs`: the gateway's log, filtered and followed."""

from __future__ import annotations

import asyncio
import json as json_format
import re
from collections.abc import Iterator
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, app, parse_time
from semel.faces.cli.printing import print_error, print_remark, stdout_console
from semel.faces.config import locate_to_read
from semel.text.visible import escape_json, visible

if TYPE_CHECKING:
    from semel.faces.log_reader import LogFilter
    from semel.ledger.storage.location import LedgerLocation

LEVEL_STYLES = {"warning": "yellow", "error": "red", "critical": "bold red"}
HEAD = ("timestamp", "level", "logger", "event", "exception")
"""The fields that have a place of their own in a printed line."""

ID_LETTERS = {"turn": "t", "part": "p"}
"""The letters of ids, as `semel why` takes them. In the file, an id is a number."""
MAX_KNOWN_SESSIONS = 10
"""How many of the newest sessions are named if the one that was asked for is not known."""


@app.command()
def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep running, and print each new line.")] = False,
    number: Annotated[int, typer.Option("-n", metavar="N", min=0, help="How many of the newest lines to print.")] = 100,
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            "-s",
            metavar="KEY",
            help="Only lines about this session, or about those that fit a pattern with * and ?.",
        ),
    ] = None,
    turn: Annotated[str | None, typer.Option("--turn", metavar="ID", help="Only lines about this turn (t5).")] = None,
    part: Annotated[str | None, typer.Option("--part", metavar="ID", help="Only lines about this part (p12).")] = None,
    level: Annotated[
        Literal["info", "warning", "error"] | None, typer.Option("--level", help="Only lines of this level or above.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Not older: 2h, 7d, 18:12, 2026-11-22, '2026-11-22 07:30'."),
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Print the gateway's log: what `semel up` logs, and what happened to turns, requests and messages to platforms.

    The log is kept in the data directory, 50 MB at most, and can be read without a running gateway. `--json` prints the
    lines as they are in the file.
    """
    from semel.faces import log_reader

    data, ledger, mistake = locate_to_read(config, data_dir)
    if mistake:
        print_remark(f"{mistake}; the file is not used")
    since_ms = parse_time("--since", since)
    log_filter = log_reader.LogFilter(
        session,
        _parse_id(turn, "t", "--turn"),
        _parse_id(part, "p", "--part"),
        level,
        None if since_ms is None else since_ms / 1000,
    )
    if follow and session is not None and (unknown := _describe_unknown_session(ledger, data, session)):
        print_remark(f"{unknown}; waiting for its first line")
    is_empty = True
    try:
        for line in _read_lines(data, number, log_filter, is_followed=follow):
            _print_line(line, json)
            is_empty = False
    except KeyboardInterrupt:  # how people end --follow
        raise typer.Exit(0) from None
    if is_empty and number:
        _explain_no_lines(ledger, data, log_filter)


def _explain_no_lines(ledger: LedgerLocation, data: Path, asked: LogFilter) -> None:
    """Say that no line was chosen. Exits with 1 if the session, turn or part that was asked for is not known."""
    unknown = _describe_unknown_session(ledger, data, asked.session) if asked.session is not None else None
    if unknown := unknown or _describe_unknown_id(ledger, data, {"turn": asked.turn, "part": asked.part}):
        print_error(unknown)
        raise typer.Exit(1)
    print_remark("no line of the log is like that; without options, `semel logs` prints the newest ones")


def _describe_unknown_id(ledger: LedgerLocation, data: Path, ids: dict[str, int | None]) -> str | None:
    """Return a sentence which says that there is no turn or part with that id; None if there is. `ids`: by kind."""
    from semel.faces.cli.offline import OfflineLedger, read_ledger
    from semel.faces.client import RequestRefused
    from semel.ledger.storage.errors import LedgerError

    for kind, id in ids.items():
        ref = f"{ID_LETTERS[kind]}{id}"

        async def find(reader: OfflineLedger, ref: str = ref) -> None:
            await reader.why(ref)

        try:
            if id is not None:
                asyncio.run(read_ledger(ledger, data, find))
        except RequestRefused:
            return f"there is no {kind} {ref}"
        except LedgerError:
            return None  # `semel doctor` says what is wrong with it
    return None


def _describe_unknown_session(ledger: LedgerLocation, data: Path, key: str) -> str | None:
    """Return a sentence which says that the session is not known, and which ones are; None if it is.

    `key`: a session's key, or a pattern that keys may fit.
    """
    from semel.faces.cli.offline import OfflineLedger, read_ledger
    from semel.faces.config.problems import suggest_nearest
    from semel.ledger.storage.errors import LedgerError

    async def list_keys(reader: OfflineLedger) -> list[str]:
        return [session["key"] for is_archived in (False, True) for session in await reader.list_sessions(is_archived)]

    try:
        keys = asyncio.run(read_ledger(ledger, data, list_keys))
    except LedgerError:
        return None  # `semel doctor` says what is wrong with it
    if any(fnmatchcase(known, key) for known in keys):
        return None
    known = suggest_nearest(key, keys[:MAX_KNOWN_SESSIONS]) or "; there are none yet"
    return f"there is no session {key!r}{known}{'' if len(keys) <= MAX_KNOWN_SESSIONS else ' (all: semel sessions)'}"


def _read_lines(data: Path, number: int, log_filter: LogFilter, *, is_followed: bool) -> Iterator[dict[str, Any]]:
    """Yield lines of the log. Exits with 1 if there is none, or if it cannot be read."""
    from semel.faces import log_reader

    try:
        if not log_reader.list_log_files(data):
            print_error(f"there is no log in {data} yet; `semel up` writes it")
            raise typer.Exit(1)
        yield from log_reader.read_log(data, number, log_filter, is_followed=is_followed)
    except PermissionError:
        print_error(f"the log in {data} cannot be read by this user. Run this as the user who runs the gateway")
        raise typer.Exit(1) from None
    except OSError as error:
        print_error(f"{error.filename or 'the log'} cannot be read: {error.strerror}")
        raise typer.Exit(1) from None


def _parse_id(text: str | None, letter: str, option: str) -> int | None:
    if text is None:
        return None
    if not (match := re.fullmatch(rf"{letter}?(\d{{1,18}})", text)):
        raise typer.BadParameter(f"{option}: {text!r} is not an id like {letter}5")
    return int(match[1])


def _print_line(line: dict[str, Any], json: bool) -> None:
    if json:
        print(escape_json(json_format.dumps(line, ensure_ascii=False)), flush=True)
        return
    level = str(line.get("level", ""))
    fields = "  ".join(
        f"{name}={ID_LETTERS.get(name, '')}{_format_value(value)}" for name, value in line.items() if name not in HEAD
    )
    head = f"{_format_moment(line.get('timestamp'))} "
    text = f" {line.get('logger', '')}: {line.get('event', '')}{f'  {fields}' if fields else ''}"
    out = stdout_console()
    out.print(Text(head, "dim"), Text(level, LEVEL_STYLES.get(level, "")), Text(visible(text)), sep="")
    for row in str(line.get("exception") or "").splitlines():
        out.print(Text(visible(f"    {row}"), "dim"))


def _format_moment(timestamp: object) -> str:
    """Format a timestamp of the log in local time; return it as it is if it is none."""
    try:
        return datetime.fromisoformat(str(timestamp)).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return str(timestamp)


def _format_value(value: object) -> str:
    return (
        value if isinstance(value, str) and value and " " not in value else json_format.dumps(value, ensure_ascii=False)
    )
