"""`semel ledger copy`: move the ledger to another place, such as from a SQLite file to PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.printing import count_of, print_error, print_json, print_remark, print_table, stderr_console
from semel.faces.config import locate
from semel.faces.config.paths import expand_path
from semel.ledger.storage.location import DatabaseUrl, LedgerLocation, is_database_uri

if TYPE_CHECKING:
    from semel.ledger.copy_files import ReadObject
    from semel.ledger.copy_ledger import LedgerCopy

ledger_app = typer.Typer(help="Move the ledger to another place.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")

FILE_SUFFIX = ".db"
PLACE = (
    "A postgresql:// URL, a data directory, or a ledger's file, whose name ends in .db. "
    "A password belongs in ~/.pgpass or $PGPASSWORD."
)


@ledger_app.command("copy")
def copy_ledger(
    source: Annotated[str, typer.Argument(metavar="FROM", help=f"The ledger to copy. {PLACE}")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The place for the copy, which must be empty.")],
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Copy the ledger to another place, compare every row, and mark the old one as moved. The gateway must not run.

    It goes from SQLite to PostgreSQL, back, or to another place of the same kind. The files of messages go along: from
    the data directory into the database, or back. If this command is interrupted, run it again: it begins anew, and
    until then no gateway starts on the copy. Afterwards none starts on the old ledger.
    """
    from semel.ledger.copy_ledger import copy_ledger as copy
    from semel.ledger.storage.store import now_ms

    data, configured = locate(config, data_dir)
    (old_data, old), (new_data, new) = (_find_place(text, data, configured) for text in (source, target))
    if old == new:
        print_error(f"FROM and TO are the same ledger, {old}")
        raise typer.Exit(2)
    began = time.monotonic()
    with _showing_progress() as progress:
        done = copy(
            old, new, (old_data, new_data), clock=now_ms, report=progress.advance, announce=progress.expect,
            read_object=_open_object_storage(config),
        )  # fmt: skip
    if json:
        seconds = round(time.monotonic() - began, 3)
        print_json({**asdict(done), "rows": done.rows, "seconds": seconds})
    else:
        _print_copy(done, time.monotonic() - began, new, new_data)
        if old_data != new_data:
            print_remark(f"owner.token, the log and agents' workspaces stay in {old_data}: copy by hand what you need")
        print_remark(_describe_next_step(new))
    if done.files.missing:
        print_error(
            f"{count_of(len(done.files.missing), 'file', 'files')} of messages were missing or damaged in "
            f"{_describe_place(old, old_data)}, and are not in {_describe_place(new, new_data)}"
        )


def _open_object_storage(config: Path | None) -> ReadObject | None:
    """Return what reads the files that are in object storage; None if the configuration names none."""
    from semel.faces.config.load import load_files

    settings = load_files(config)
    if not settings.url:
        return None
    from semel.gateway.object_files import make_reader

    return make_reader(settings)


def _find_place(text: str, data: Path, configured: LedgerLocation) -> tuple[Path, LedgerLocation]:
    """Return the data directory and the ledger that an argument names. Exits with 2 if it names none."""
    if is_database_uri(text):
        url = DatabaseUrl(text)
        if not url.database:
            print_error(f"{url} names no database: write postgresql://HOST/DATABASE")
            raise typer.Exit(2)
        return data, url
    if "://" in text and not text.startswith("sqlite:///"):
        print_error(f"{text} is neither a postgresql:// URL nor a path")
        raise typer.Exit(2)
    path = expand_path(text.removeprefix("sqlite:///")).resolve()
    file = configured.resolve() if isinstance(configured, Path) else data.resolve() / "ledger.db"
    if path.is_dir() or (path.suffix != FILE_SUFFIX and not path.exists()):
        return path, file if path == data.resolve() else path / "ledger.db"
    return (data.resolve() if path == file else path.parent), path


def _describe_place(ledger: LedgerLocation, data: Path) -> str:
    """Return where the files of a ledger's messages are, in words."""
    return "the database" if isinstance(ledger, DatabaseUrl) else str(data / "blobs")


def _describe_next_step(target: LedgerLocation) -> str:
    if isinstance(target, DatabaseUrl):
        return "write the URL of the database into semel.toml (url in [ledger]), then start the gateway"
    url = (
        "remove url from [ledger]"
        if target.name == "ledger.db"
        else f'set url in [ledger] to "sqlite:///{target.name}"'
    )
    return f"set data_dir in [gateway] to {target.parent} and {url}, then start the gateway"


def _print_copy(done: LedgerCopy, seconds: float, target: LedgerLocation, data: Path) -> None:
    print_table(("TABLE", "ROWS", "DIGEST"), ((t.table, t.rows, t.digest) for t in done.tables), "there are no tables")
    print_remark(f"{done.rows:,} rows are equal in both, and {done.books} books hold in both ({seconds:.1f} s)")
    if done.replaced:
        print_remark(f"PostgreSQL cannot store U+0000: it became U+2400 in {count_of(done.replaced, 'text', 'texts')}")
    files = f"{count_of(done.files.needed, 'file', 'files')} of messages, {done.files.copied} of them copied"
    print_remark(f"{files}, in {_describe_place(target, data)}")
    print_remark(f"{done.source} is marked as moved: no gateway starts on it")


class _Progress:
    """Shows nothing: stderr is no terminal."""

    def expect(self, rows: int) -> None:
        """Prepare for this number of rows."""

    def advance(self, stage: str, rows: int) -> None:
        """Show what is being done, and that this number of rows more is done."""


@contextmanager
def _showing_progress() -> Iterator[_Progress]:
    console = stderr_console()
    if not console.is_terminal:
        yield _Progress()
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<20}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("read the books", total=None)

        class Bar(_Progress):
            def expect(self, rows: int) -> None:
                bar.update(task, total=2 * rows)

            def advance(self, stage: str, rows: int) -> None:
                bar.update(task, description=stage, advance=rows)

        yield Bar()
