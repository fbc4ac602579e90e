"""Restore a backup into a data directory without a ledger, or in place of its ledger, which is moved aside.

    check the backup -> copy its ledger beside the old one -> create `ledger.db.restoring` -> move the old ledger aside
    -> rename the copy to `ledger.db` -> remove `ledger.db.restoring`

Until `ledger.db.restoring` is created, the old ledger is unchanged. When that file is removed, the new ledger is in
place. While the file exists, no gateway starts, and the restore can be finished by running the same command again. No
part of the old ledger is deleted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from semel.ledger.backup.backups import (
    BLOBS,
    LEDGER_FILE,
    TOKENS,
    Backup,
    check_backup,
    copy_file,
    find_backup,
    format_utc_stamp,
    raise_ledger_errors,
    write_atomically,
)
from semel.ledger.sqlite import mark_file
from semel.ledger.sqlite.connect import connect, sync_folder
from semel.ledger.sqlite.open_ledger import lock_ledger, restoring_flag_path
from semel.ledger.sqlite.store import Store, mark_as_copy
from semel.ledger.storage.errors import LedgerMissing, LedgerThere, RestoreFailed
from semel.ledger.storage.sql import Tx, queries

COMPANION_SUFFIXES = ("-wal", "-shm", "-journal", mark_file.MARK_SUFFIX)
"""Suffixes of the files that belong to a ledger's file."""


@dataclass(frozen=True)
class RestoreResult:
    """The result of a restore. `aside`: the folder that now contains the old ledger; None if there was none.

    `tokens`: the names of the token files that were copied.
    """

    backup: Backup
    ledger: Path
    aside: Path | None
    tokens: tuple[str, ...]


def restore_backup(
    folder: Path, ledger: Path, data_dir: Path, *, clock: Callable[[], int], replace: bool = False
) -> RestoreResult:
    """Restore the backup in `folder`, or the newest one in its subfolders, as the ledger `ledger`.

    Raises LedgerError. `replace`: an existing ledger may be replaced. At its next start, the gateway settles the
    restored ledger (`semel.ledger.backup.settle_restored`).
    """
    backup = find_backup(folder)
    ledger = ledger.expanduser().absolute()
    with raise_ledger_errors(data_dir, RestoreFailed):
        blobs = check_backup(backup)
        ledger.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = lock_ledger(ledger)
        try:
            was_interrupted = restoring_flag_path(ledger).exists()
            if ledger.exists() and not replace and not was_interrupted:
                raise LedgerThere(path=ledger, folder=folder)
            _copy_blobs(backup, blobs, data_dir / BLOBS)
            tokens = _copy_tokens(backup, data_dir)
            new_ledger = ledger.with_name(f"{ledger.name}.new")
            _copy_ledger(backup, ledger, new_ledger)
            aside = _replace_ledger(ledger, new_ledger, clock)
            return RestoreResult(backup, ledger, aside, tokens)
        finally:
            lock.release()


def treat_as_restored(ledger: Path, clock: Callable[[], int]) -> Path:
    """Mark the current ledger as restored, for an operator who put an older copy in its place by other means.

    At its next start, the gateway settles the ledger. Return the ledger's path. Raises LedgerError.
    """
    if not ledger.expanduser().exists():
        raise LedgerMissing(path=ledger.expanduser().absolute())
    with Store.open_sync(ledger, clock=clock) as store:
        store.write_sync(mark_as_copy)
        return store.path


def _copy_blobs(backup: Backup, blobs: list[tuple[str, int]], store: Path) -> None:
    """Copy the missing files into the store.

    Files are named by the digest of their content, so existing ones are equal.
    """
    store.mkdir(mode=0o700, exist_ok=True)
    for id, size in blobs:
        path = store / id
        if path.is_file() and path.stat().st_size == size:
            continue
        draft = store / f".draft-{id}"  # a gateway removes such files when it starts
        copy_file(backup.store / id, draft)
        draft.rename(path)
    sync_folder(store)


def _copy_tokens(backup: Backup, data_dir: Path) -> tuple[str, ...]:
    """Copy the token files that the data directory lacks; return their names."""
    copied = []
    for name in backup.manifest.tokens:
        if not (data_dir / name).exists():
            draft = data_dir / f".{name}.new"
            copy_file(backup.folder / TOKENS / name, draft)
            draft.rename(data_dir / name)
            copied.append(name)
    sync_folder(data_dir)
    return tuple(copied)


def _copy_ledger(backup: Backup, ledger: Path, new_ledger: Path) -> None:
    """Copy the backup's ledger beside the old one, and mark it as restored.

    Its incarnation continues from the old ledger's.
    """
    for suffix in ("-wal", "-shm", "-journal"):
        new_ledger.with_name(new_ledger.name + suffix).unlink(missing_ok=True)
    copy_file(backup.folder / LEDGER_FILE, new_ledger)
    old_mark = mark_file.read_mark(ledger)
    incarnation = old_mark.incarnation if old_mark is not None and old_mark.ledger == backup.manifest.ledger else 0
    db = connect(new_ledger)
    try:
        db.execute("PRAGMA synchronous = FULL")
        with db:
            Tx(db.cursor(), queries(), 0).run("ledger_copied", at=backup.manifest.at, incarnation=incarnation)
    finally:
        db.close()


def _replace_ledger(ledger: Path, new_ledger: Path, clock: Callable[[], int]) -> Path | None:
    """Move the old ledger aside, and put the new one in its place. An interrupted call can be repeated.

    Return the folder that now contains the old ledger; None if there was none.
    """
    flag, folder = restoring_flag_path(ledger), ledger.parent
    aside = _read_aside(flag)
    if aside is None:
        aside = folder / f"replaced-{format_utc_stamp(clock())}"
        while aside.exists():
            aside = aside.with_name(f"{aside.name}x")
        write_atomically(flag, json.dumps({"aside": aside.name}) + "\n")
        sync_folder(folder)
    aside.mkdir(mode=0o700, exist_ok=True)
    for suffix in COMPANION_SUFFIXES:  # SQLite would apply a log that stayed to the new file
        with suppress(FileNotFoundError):
            ledger.with_name(ledger.name + suffix).rename(aside / (ledger.name + suffix))
    if ledger.exists() and not (aside / ledger.name).exists():
        os.link(ledger, aside / ledger.name)
    sync_folder(aside)
    new_ledger.rename(ledger)
    sync_folder(folder)
    flag.unlink()
    sync_folder(folder)
    if (aside / ledger.name).exists():
        return aside
    with suppress(OSError):
        aside.rmdir()
    return None


def _read_aside(flag: Path) -> Path | None:
    """Return the folder into which an interrupted run was moving the old ledger; None if the flag file names none."""
    try:
        return flag.parent / str(json.loads(flag.read_text("utf-8"))["aside"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
