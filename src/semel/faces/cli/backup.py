"""`semel backup`: a copy of the ledger and its files, while the gateway runs or without one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from semel import __version__
from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.out import as_json, complain, remark
from semel.faces.config import locate


@app.command()
def backup(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="The folder of backups. Default: the data directory's name, -backups."),
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="With the token files of the data directory.")] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Back up the ledger and its files. The gateway may run; the copy is checked.

    Each backup is a folder of its own in DIR; files are kept there once for all of them. Exit code 1 if there is no
    backup, or a law is broken in it.
    """
    from semel.ledger.backups import make_backup
    from semel.ledger.store import now_ms

    data, ledger = locate(config, data_dir)
    target = folder if folder is not None else data.with_name(f"{data.name}-backups")
    if target.expanduser().absolute().is_relative_to(data):
        complain(f"{target} lies in the data directory {data}, which it is to save: choose a folder outside of it")
        raise typer.Exit(2)
    made = make_backup(ledger, data, target, semel=__version__, clock=now_ms, tokens=tokens)
    manifest = made.manifest
    if json:
        as_json({"backup": str(made.folder), "copied": made.copied, **asdict(manifest)})
    else:
        print(made.folder)
        remark(f"checked: integrity, {manifest.books} books; {_files(manifest.blobs, made.copied)}")
    if manifest.missing:
        complain(f"{len(manifest.missing)} files were not there any more, and are not in the backup")
    if manifest.broken:
        complain(f"these laws are broken in the ledger, and so in the backup: {', '.join(manifest.broken)}")
        raise typer.Exit(1)


def _files(number: int, copied: int) -> str:
    word = "file" if number == 1 else "files"
    return f"{number} {word}, {copied} of them new" if number else "no files"
