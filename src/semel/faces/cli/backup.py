"""`semel backup` and `semel restore`: copy the ledger with its files, and restore such a copy (Law 14)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from semel import __version__
from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.printing import print_error, print_json, print_remark
from semel.faces.config import locate
from semel.ledger.storage.location import DatabaseUrl
from semel.tools.address import find_start_command

AT_NEXT_START = (
    "at the next start, messages that may have been sent since are looked up or held, and no turn is run again"
)


@app.command()
def backup(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]", help="The folder for backups. Default: the data directory's path with -backups appended."
        ),
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Include the data directory's token files.")] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep", metavar="N", min=1, help="Keep only the newest N backups in DIR, unless the new one breaks a law."
        ),
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Back up the ledger and its files, check the copy and print its folder. The gateway may run.

    Each backup is a folder in DIR; all of them share their files. The exit code is 1 if no backup was made, or if the
    copy breaks a law.
    """
    from semel.ledger.backup.backups import drop_old_backups, make_backup
    from semel.ledger.backup.last_backup import record_backup
    from semel.ledger.storage.store import now_ms

    data, ledger = _locate_file(config, data_dir)
    target = folder if folder is not None else data.with_name(f"{data.name}-backups")
    if target.expanduser().resolve().is_relative_to(data.resolve()):
        print_error(f"{target} is inside the data directory {data}, which it would back up: choose a folder outside")
        raise typer.Exit(2)
    new_backup = make_backup(ledger, data, target, semel=__version__, clock=now_ms, tokens=tokens)
    record_backup(data, new_backup)
    manifest = new_backup.manifest
    removed = drop_old_backups(target, keep) if keep is not None and not manifest.broken else []
    if json:
        outcome = {
            "backup": str(new_backup.folder),
            "copied": new_backup.copied,
            "removed": [str(path) for path in removed],
        }
        print_json({**outcome, **asdict(manifest)})
    else:
        print(new_backup.folder)
        print_remark(
            f"the ledger {ledger}, checked: integrity, {manifest.books} books; "
            f"{_describe_files(manifest.blobs, new_backup.copied)}"
        )
        for path in removed:
            print_remark(f"removed: {path}")
    if manifest.missing:
        print_error(f"{len(manifest.missing)} files were missing or damaged, and are not in the backup")
    if manifest.broken:
        print_error(
            f"the ledger, and so the backup, breaks these books of `semel doctor`: {', '.join(manifest.broken)}"
        )
        raise typer.Exit(1)


def _locate_file(config: Path | None, data_dir: Path | None) -> tuple[Path, Path]:
    """Return data directory and ledger file. Exit if the ledger is in a database, which has tools of its own."""
    data, ledger = locate(config, data_dir)
    if isinstance(ledger, DatabaseUrl):
        print_error(
            f"the ledger is in the database {ledger}, with the files of its messages: back it up and restore it with "
            "PostgreSQL's tools (pg_dump, or a base backup with its log). After a restore, run before the first start: "
            "semel restore --here"
        )
        raise typer.Exit(1)
    return data, ledger


def _describe_files(number: int, copied: int) -> str:
    word = "file" if number == 1 else "files"
    return f"{number} {word}, {copied} of them new" if number else "no files"


@app.command()
def restore(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="A backup, or a folder of backups, of which the newest is used."),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace the existing ledger, which is kept in replaced-TIME in the data directory."
        ),
    ] = False,
    here: Annotated[
        bool,
        typer.Option(
            "--here",
            help="Without DIR: you put back the data directory or the machine by other means, or take back a ledger "
            "that 'semel ledger copy' marked as moved.",
        ),
    ] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Restore a backup after checking all of it. The gateway must not run.

    If this command is interrupted, run it again; until then no gateway starts. The next start
    repeats nothing by itself that may have been sent or run since the backup.
    """
    from semel.ledger.backup.last_backup import record_restore
    from semel.ledger.backup.restore import restore_backup, treat_as_restored
    from semel.ledger.engines import treat_database_as_restored
    from semel.ledger.storage.store import now_ms
    from semel.timing.walltime import format_utc

    if here:
        if folder is not None or replace:
            print_error("--here is for a ledger that is already in its place: use it without DIR and --replace")
            raise typer.Exit(2)
        ledger = locate(config, data_dir)[1]
        if isinstance(ledger, DatabaseUrl):
            treat_database_as_restored(ledger)
            name = str(ledger)
        else:
            name = str(treat_as_restored(ledger, now_ms))
        if json:
            print_json({"ledger": name})
            return
        print(name)
        _print_next_steps(config, data_dir)
        return
    if folder is None:
        print_error("name the backup to restore: DIR, or --here if you put back the data directory itself")
        raise typer.Exit(2)
    data, file = _locate_file(config, data_dir)
    restored = restore_backup(folder, file, data, clock=now_ms, replace=replace)
    record_restore(data, restored.backup, now_ms())
    replaced_ledger = None if restored.aside is None else str(restored.aside)
    if json:
        tokens = list(restored.tokens)
        print_json(
            {"backup": str(restored.backup.folder), "ledger": str(file), "aside": replaced_ledger, "tokens": tokens}
        )
        return
    print(file)
    print_remark(f"restored from {restored.backup.folder}, as it was on {format_utc(restored.backup.manifest.at)}")
    if replaced_ledger is not None:
        print_remark(f"the previous ledger is kept in {replaced_ledger}")
    _print_next_steps(config, data_dir)
    from semel.faces.run import OWNER_TOKEN_FILE

    if not (data / OWNER_TOKEN_FILE).exists():
        print_remark("there is no owner.token here: the first start makes a new one, which ends logins and old tokens")
    print_remark("people who were removed after the backup may talk again: check `semel people list`")


def _print_next_steps(config: Path | None, data_dir: Path | None) -> None:
    """Print what the next start does, and the commands that come now."""
    print_remark(AT_NEXT_START)
    start = find_start_command(locate(config, data_dir)[0])
    print_remark(f"start the gateway: {start}; then see what it holds: semel outbox list --state held")
