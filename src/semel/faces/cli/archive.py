"""`semel search`, `semel export` and `semel import`."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any, Literal, cast

import typer
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, Session, app, ask_gateway, parse_time
from semel.faces.cli.offline import Reader, ask_or_read
from semel.faces.cli.printing import escape_text, format_time, print_error, print_json, print_remark, stdout_console
from semel.faces.cli.transcript import ROLE_STYLES
from semel.faces.client import NoGateway
from semel.faces.transcript import speaker
from semel.text.visible import visible


@app.command()
def search(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS...",
            help='All of these words; "a phrase"; begin* for a beginning. After --, -word excludes a word.',
        ),
    ],
    session: Annotated[
        str | None,
        typer.Option(
            "--session", "-s", metavar="KEY", help="Only in this session, or in those that fit a pattern with * and ?."
        ),
    ] = None,
    role: Annotated[
        Literal["user", "agent", "event", "notice"] | None,
        typer.Option("--role", help="Only entries of this role: user, agent, event or notice."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Not older: 2h, 7d, 18:12, 2026-11-22, '2026-11-22 07:30'."),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only older, in the same forms.")] = None,
    best: Annotated[bool, typer.Option("--best", help="Best matches first instead of the newest.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="The most results to print.")] = 20,
    after: Annotated[
        str | None, typer.Option("--after", metavar="NEXT", help="The next page, after the one that ended with NEXT.")
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Search the entries of every session. In a pipe, a row is SESSION#SEQ, time, speaker, text.

    If no gateway runs, the ledger itself is read.
    """
    filters: dict[str, Any] = {
        "session": session, "role": role, "since": parse_time("--since", since),
        "until": parse_time("--until", until), "order": "best" if best else "newest", "limit": limit, "after": after,
    }  # fmt: skip
    text = " ".join(_quote_phrase(word) for word in words)
    result = ask_or_read(config, data_dir, lambda reader: reader.search_page(text, **filters))
    if json:
        print_json(result)
        return
    for hit in result["hits"]:
        _print_hit(hit)
    if not result["hits"]:
        print_remark("no entry matches")
    if not result["index"]["current"]:
        print_remark(f"the index is still being filled ({result['index']['behind']} sessions to go): there may be more")
    if result["next"]:
        print_remark(f"there is more: --after {result['next']}")


def _quote_phrase(word: str) -> str:
    """Quote an argument of several words again: it was a quoted phrase, and the shell removed the quotes."""
    return f'"{word}"' if re.search(r"\s", word.strip()) and '"' not in word else word


def _print_hit(hit: dict[str, Any]) -> None:
    """Print a hit: one tab-separated line in a pipe, two lines on a terminal."""
    text = "".join(piece["text"] for piece in hit["snippet"])
    if not sys.stdout.isatty():
        plain = " ".join(text.split())
        print(f"{hit['session']}#{hit['seq']}", format_time(hit["at"]), speaker(hit), escape_text(plain), sep="\t")
        return
    head = Text(visible(speaker(hit)), ROLE_STYLES.get(hit["role"], ""))
    head.append(f"  {format_time(hit['at'])}  {hit['session']}#{hit['seq']}", "dim")
    line = Text("  ")
    for piece in hit["snippet"]:
        line.append(visible(re.sub(r"\s+", " ", piece["text"])), "bold yellow" if piece.get("hit") else "")
    stdout = stdout_console()
    stdout.print(head)
    stdout.print(line)


@app.command()
def export(
    session: Session,
    format: Annotated[
        Literal["md", "jsonl", "html"],
        typer.Option(
            "--format", "-f", help="md (Markdown) or html (one file) for people; jsonl for programs and semel import."
        ),
    ] = "md",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to this file, which appears when it is complete, instead of stdout.",
        ),
    ] = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Write a session as a document. `semel import` reads what `--format jsonl` writes.

    If no gateway runs, the ledger itself is read.
    """

    async def go(reader: Reader) -> None:
        async with contextlib.aclosing(reader.export(session, format)) as pieces:
            first = await anext(pieces)  # fails before the file is opened if there is no such session, or no gateway
            with _open_output(output) as file:
                file.write(first)
                try:
                    async for piece in pieces:
                        file.write(piece)
                except NoGateway:
                    print_error("the gateway went away; the document is incomplete")
                    raise typer.Exit(1) from None

    ask_or_read(config, data_dir, go)
    if output is not None:
        print_remark(f"{session} is in {output}")


class _TextStdout(io.RawIOBase):
    """A binary file that decodes the UTF-8 written to it and writes the text to stdout.

    It serves a stdout that takes only text, or that is a terminal; for a terminal, it escapes control characters.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def write(self, piece: Any) -> int:
        text = self._decoder.decode(bytes(piece))
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
        return len(piece)


@contextlib.contextmanager
def _open_output(output: Path | None) -> Iterator[IO[bytes]]:
    """Open stdout, or a file that appears under its name only when it is complete."""
    if output is None:
        sys.stdout.flush()
        binary_stdout = None if sys.stdout.isatty() else getattr(sys.stdout, "buffer", None)
        yield binary_stdout or cast(IO[bytes], _TextStdout())
        return
    if output.exists() and not output.is_file():
        print_error(f"{output} is not a file that can be replaced; without --output, the export goes to stdout")
        raise typer.Exit(2)
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(output)
    except OSError as error:
        print_error(f"{output} cannot be written: {error.strerror}")
        raise typer.Exit(1) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file from `semel export --format jsonl`; with --from, a folder.")
    ],
    key: Annotated[
        str | None, typer.Option("--as", metavar="KEY", help="The new session's key. Default: its old one.")
    ] = None,
    system: Annotated[
        Literal["openclaw", "hermes", "nanoclaw"] | None,
        typer.Option("--from", help="FILE is the folder of this system: import its conversations, people, schedules."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --from: change nothing, and print what would be imported.")
    ] = False,
    schedules: Annotated[
        Literal["on", "off"],
        typer.Option("--schedules", help="With --from: whether imported schedules fire from now on, or are paused."),
    ] = "off",
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Create a session from an exported one; with --from, import what another system has kept.

    The import wakes nothing, sends nothing and never overwrites a session. Importing the same again changes nothing; an
    interrupted import continues. With --from, what is new there is added.
    """
    if system is not None:
        if key is not None:
            raise typer.BadParameter("--as is for the import of one session; with --from, each has a key of its own")
        _import_store(system, file, dry_run, schedules == "on", json, config, data_dir)
        return
    if dry_run or schedules == "on":
        raise typer.BadParameter("--dry-run and --schedules need --from")
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        print_error(f"{file} cannot be read: {error.strerror}")
        raise typer.Exit(1) from None
    imported = ask_gateway(config, data_dir, lambda client: client.import_file(file, key))
    if json:
        print_json(imported)
        return
    statuses = {"imported": "is there now, with", "known": "was there already, with", "grown": "has grown, to"}
    print_remark(f"{imported['session']} {statuses[imported['status']]} {imported['entries']} entries")


def _import_store(
    system: Literal["openclaw", "hermes", "nanoclaw"],
    folder: Path,
    dry_run: bool,
    schedules_on: bool,
    json: bool,
    config: Path | None,
    data_dir: Path | None,
) -> None:
    from semel.faces.cli.store_report import print_report
    from semel.faces.stores.importing import import_store, open_store
    from semel.faces.stores.records import BadStore

    try:
        store = open_store(system, folder)
        if dry_run:
            report = asyncio.run(import_store(store, None))
        else:
            report = ask_gateway(
                config, data_dir, lambda client: import_store(store, client, schedules_on=schedules_on)
            )
    except BadStore as error:
        print_error(str(error))
        raise typer.Exit(1) from None
    if json:
        print_json(report)
    else:
        print_report(report)
    if any(row["status"] == "refused" for kind in ("sessions", "people", "schedules") for row in report[kind]):
        raise typer.Exit(1)
