"""`semel search`, `semel export` and `semel import`."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import io
import os
import re
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any, cast

import typer
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, Session, app, ask
from semel.faces.cli.out import as_json, complain, console, remark, shown, when
from semel.faces.cli.transcript import COLOURS
from semel.faces.client import Client
from semel.faces.config import locate
from semel.faces.transcript import speaker
from semel.text.visible import visible

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Role(StrEnum):
    user = "user"
    agent = "agent"
    event = "event"
    notice = "notice"


class Format(StrEnum):
    md = "md"
    jsonl = "jsonl"
    html = "html"


@app.command()
def search(
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORDS...", help='All of these: word, "a phrase", beginn*; after --, not: -word.'),
    ],
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="KEY", help="Only there; * and ? make it a pattern.")
    ] = None,
    role: Annotated[Role | None, typer.Option("--role", help="Only what these said.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Not before: 2h, 7d, 2026-11-22, '2026-11-22 07:30'.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before, said in the same ways.")] = None,
    best: Annotated[bool, typer.Option("--best", help="Best matches first, instead of the newest.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="At most so many.")] = 20,
    after: Annotated[
        str | None, typer.Option("--after", metavar="NEXT", help="The page after the one that ended with NEXT.")
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Find what was said, in every session."""
    where: dict[str, Any] = {
        "session": session, "role": role and role.value, "since": _parse_time("--since", since),
        "until": _parse_time("--until", until), "order": "best" if best else "newest", "limit": limit, "after": after,
    }  # fmt: skip
    text = " ".join(_quoted(word) for word in words)
    found = ask(config, data_dir, lambda client: client.search(text, **where))
    if json:
        as_json(found)
        return
    for hit in found["hits"]:
        _tell(hit)
    if not found["hits"]:
        remark("nothing was found")
    if not found["index"]["current"]:
        remark(f"the index is still being filled ({found['index']['behind']} sessions to go): there may be more")
    if found["next"]:
        remark(f"there is more: --after {found['next']}")


def _quoted(word: str) -> str:
    """Quote an argument of several words again: it was a quoted phrase, and the shell removed the quotes."""
    return f'"{word}"' if re.search(r"\s", word.strip()) and '"' not in word else word


def _tell(hit: dict[str, Any]) -> None:
    """Print a hit: one tab-separated line in a pipe, two lines on a terminal."""
    text = "".join(piece["text"] for piece in hit["snippet"])
    if not sys.stdout.isatty():
        plain = " ".join(text.split())
        print(f"{hit['session']}#{hit['seq']}", when(hit["at"]), speaker(hit), shown(plain), sep="\t")
        return
    head = Text(visible(speaker(hit)), COLOURS.get(hit["role"], ""))
    head.append(f"  {when(hit['at'])}  {hit['session']}#{hit['seq']}", "dim")
    line = Text("  ")
    for piece in hit["snippet"]:
        line.append(visible(re.sub(r"\s+", " ", piece["text"])), "bold yellow" if piece.get("hit") else "")
    out = console()
    out.print(head)
    out.print(line)


def _parse_time(option: str, told: str | None) -> int | None:
    """Parse an age like `2h`, or a local date and time, to ms since the epoch. Raises typer.BadParameter."""
    if told is None:
        return None
    if ago := re.fullmatch(r"(\d{1,6})([smhdw])", told):
        return max(0, round((time.time() - int(ago[1]) * UNITS[ago[2]]) * 1000))
    try:
        return max(0, round(datetime.fromisoformat(told).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise typer.BadParameter(f"{option} is {told!r}: say 2h, 7d, 2026-11-22 or '2026-11-22 07:30'") from None


@app.command()
def export(
    session: Session,
    format: Annotated[
        Format, typer.Option("--format", "-f", help="Markdown or one HTML file for people, or every record as JSON.")
    ] = Format.md,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of to stdout.")
    ] = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Write a session as a document. What `--format jsonl` writes, `semel import` reads."""

    async def go() -> None:
        async with (
            Client(locate(config, data_dir)[0]) as client,
            contextlib.aclosing(client.export(session, format.value)) as pieces,
        ):
            first = await anext(pieces)  # fails before the file is opened if there is no such session
            with _opened(output) as file:
                file.write(first)
                async for piece in pieces:
                    file.write(piece)

    asyncio.run(go())
    if output is not None:
        remark(f"{session} is in {output}")


class _AsText(io.RawIOBase):
    """Stdout as a binary file, if it is a terminal or takes only text. A terminal gets control characters escaped."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def write(self, piece: Any) -> int:
        text = self._decoder.decode(bytes(piece))
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
        return len(piece)


@contextlib.contextmanager
def _opened(output: Path | None) -> Iterator[IO[bytes]]:
    """Open stdout, or a file that appears under its name only when it is complete."""
    if output is None:
        sys.stdout.flush()
        plain = None if sys.stdout.isatty() else getattr(sys.stdout, "buffer", None)
        yield plain or cast(IO[bytes], _AsText())
        return
    fresh = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with fresh.open("wb") as file:
            yield file
        fresh.replace(output)
    except OSError as error:
        complain(f"{output} cannot be written: {error.strerror}")
        raise typer.Exit(1) from None
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `semel export --format jsonl` wrote.")],
    key: Annotated[
        str | None, typer.Option("--as", metavar="KEY", help="The new session's key. Default: the one that it had.")
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Make a new session of an exported one.

    It wakes nothing and sends nothing. A session that is there is never overwritten; the same file once more changes
    nothing, and an import that was cut off goes on.
    """
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        complain(f"{file} cannot be read: {error.strerror}")
        raise typer.Exit(1) from None
    done = ask(config, data_dir, lambda client: client.import_file(file, key))
    if json:
        as_json(done)
        return
    how = "is there now, with" if done["status"] == "imported" else "was there already, with"
    remark(f"{done['session']} {how} {done['entries']} entries")
