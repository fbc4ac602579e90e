"""`semel backup` and `semel restore`: copy the ledger with its files, and restore such a copy (Law 14)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from semel import __version__
from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.out import as_json, complain, remark
from semel.faces.config import locate

AT_START = "at the next start, messages that may have been sent since are looked up or held, and no turn is run again"


@app.command()
def backup(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The folder for backups. Default: the data directory's path + -backups."),
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Include the token files of the data directory.")] = False,
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", min=1, help="Remove older backups in DIR: only the newest N stay."),
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Back up the ledger and its files. The gateway may run; the copy is checked.

    Each backup is a folder of its own in DIR; files are kept there once for all of them. Exit code 1 if there is no
    backup, or a law is broken in it: then no older one is removed.
    """
    from semel.ledger.backup.backups import make_backup
    from semel.ledger.backup.old_backups import drop_old_backups
    from semel.ledger.storage.store import now_ms

    data, ledger = locate(config, data_dir)
    target = folder if folder is not None else data.with_name(f"{data.name}-backups")
    if target.expanduser().absolute().is_relative_to(data):
        complain(f"{target} lies in the data directory {data} that it would back up: choose a folder outside")
        raise typer.Exit(2)
    made = make_backup(ledger, data, target, semel=__version__, clock=now_ms, tokens=tokens)
    manifest = made.manifest
    removed = drop_old_backups(target, keep) if keep is not None and not manifest.broken else []
    if json:
        told = {"backup": str(made.folder), "copied": made.copied, "removed": [str(path) for path in removed]}
        as_json({**told, **asdict(manifest)})
    else:
        print(made.folder)
        remark(f"checked: integrity, {manifest.books} books; {_files(manifest.blobs, made.copied)}")
        for path in removed:
            remark(f"removed: {path}")
    if manifest.missing:
        complain(f"{len(manifest.missing)} files were missing or damaged, and are not in the backup")
    if manifest.broken:
        complain(f"the ledger, and so the backup, breaks these books of `semel doctor`: {', '.join(manifest.broken)}")
        raise typer.Exit(1)


def _files(number: int, copied: int) -> str:
    word = "file" if number == 1 else "files"
    return f"{number} {word}, {copied} of them new" if number else "no files"


@app.command()
def restore(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="A backup, or a folder of backups: the newest one.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of the ledger that is there; it is kept aside.")
    ] = False,
    here: Annotated[
        bool,
        typer.Option("--here", help="No DIR: the data directory itself was put back, or the machine from a snapshot."),
    ] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Restore a backup. The gateway must not run. If this command is interrupted, run it again.

    At the next start nothing is sent or run again by itself if it may have happened since the backup.
    """
    from semel.ledger.backup.backups import utc
    from semel.ledger.backup.restore import put_back, treat_as_put_back
    from semel.ledger.storage.store import now_ms

    data, ledger = locate(config, data_dir)
    if here:
        if folder is not None or replace:
            complain("--here is for a ledger that is in its place already: give it without DIR and --replace")
            raise typer.Exit(2)
        path = treat_as_put_back(ledger, now_ms)
        if json:
            as_json({"ledger": str(path)})
            return
        print(path)
        remark(AT_START)
        return
    if folder is None:
        complain("restore from where? Give DIR, or --here where the data directory itself was put back")
        raise typer.Exit(2)
    done = put_back(folder, ledger, data, clock=now_ms, replace=replace)
    aside = None if done.aside is None else str(done.aside)
    if json:
        tokens = list(done.tokens)
        as_json({"backup": str(done.backup.folder), "ledger": str(ledger), "aside": aside, "tokens": tokens})
        return
    print(ledger)
    remark(f"put back from {done.backup.folder}, as it was on {utc(done.backup.manifest.at)}")
    if aside is not None:
        remark(f"the ledger that was there is kept in {aside}")
    remark(AT_START)
    remark("people who were removed since the backup may talk again: check `semel people list`")
