"""Restore a backup into a data directory without a ledger, or in place of its ledger, which is moved aside.

    check the backup -> copy its ledger beside the old one -> create `ledger.db.restoring` -> move the old ledger aside
    -> rename the copy to `ledger.db` -> remove `ledger.db.restoring`

Until `ledger.db.restoring` is created, the old ledger is unchanged. When that file is removed, the new ledger is in
place. While the file exists, no gateway starts, and the restore can be finished by running the same command again. No
part of the old ledger is deleted.

If there is no old ledger, the file is created before anything is copied: a gateway that starts meanwhile would begin an
empty ledger.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

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
)
from semel.ledger.sqlite import mark_file
from semel.ledger.sqlite.connect import connect
from semel.ledger.sqlite.open_ledger import (
    MOVED_SUFFIX,
    copying_flag_path,
    lock_ledger,
    moved_note_path,
    restoring_flag_path,
)
from semel.ledger.sqlite.store import Store, mark_as_copy
from semel.ledger.sqlite.tx import SqliteTx
from semel.ledger.storage.atomic_files import sync_folder, write_atomically
from semel.ledger.storage.errors import LedgerCopying, LedgerMissing, LedgerThere, RestoreFailed
from semel.ledger.storage.rows import LedgerRow
from semel.ledger.storage.sql import queries

COMPANION_SUFFIXES = ("-wal", "-shm", "-journal", mark_file.MARK_SUFFIX, MOVED_SUFFIX)
"""Suffixes of the files that belong to a ledger's file."""


@dataclass(frozen=True)
class _Replacement:
    """What `ledger.db.restoring` says.

    `aside`: the folder for what is replaced. `has_ledger`: a ledger is replaced. `incarnations`: how often each ledger
    that was in this place had been restored, by its name, as far as is known.
    """

    aside: Path
    has_ledger: bool
    incarnations: Mapping[str, int]


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
            if copying_flag_path(ledger).exists():
                raise LedgerCopying(path=ledger)
            was_interrupted = restoring_flag_path(ledger).exists()
            if ledger.exists() and not replace and not was_interrupted:
                raise LedgerThere(path=ledger, folder=folder)
            plan = _read_replacement(ledger) or _plan_replacement(ledger, clock)
            with _no_gateway_without_ledger(ledger, plan):
                _copy_blobs(backup, blobs, data_dir / BLOBS)
                tokens = _copy_tokens(backup, data_dir)
                new_ledger = ledger.with_name(f"{ledger.name}.new")
                _copy_ledger(backup, new_ledger, plan.incarnations.get(backup.manifest.ledger, 0))
            return RestoreResult(backup, ledger, _replace_ledger(ledger, new_ledger, plan), tokens)
        finally:
            lock.release()


@contextmanager
def _no_gateway_without_ledger(ledger: Path, plan: _Replacement) -> Iterator[None]:
    """If there is no ledger yet, let no gateway begin an empty one meanwhile. An error, unlike a kill, undoes this."""
    is_first = not plan.has_ledger and not restoring_flag_path(ledger).exists()
    if is_first:
        _begin_replacement(ledger, plan)
    try:
        yield
    except BaseException:
        if is_first:
            restoring_flag_path(ledger).unlink()
        raise


def treat_as_restored(ledger: Path, clock: Callable[[], int]) -> Path:
    """Mark the current ledger as restored, for an operator who put an older copy in its place by other means.

    At its next start, the gateway settles the ledger. If the ledger was marked as moved, it is taken back. Return the
    ledger's path. Raises LedgerError.
    """
    if not ledger.expanduser().exists():
        raise LedgerMissing(path=ledger.expanduser().absolute())
    with Store.open_sync(ledger, clock=clock, may_be_moved=True) as store:
        store.write_sync(mark_as_copy)
        moved_note_path(store.path).unlink(missing_ok=True)
        sync_folder(store.path.parent)
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


def _copy_ledger(backup: Backup, new_ledger: Path, incarnation: int) -> None:
    """Copy the backup's ledger beside the old one, and mark it as restored.

    Its incarnation continues from `incarnation`, that of the old ledger.
    """
    for suffix in ("-wal", "-shm", "-journal"):
        new_ledger.with_name(new_ledger.name + suffix).unlink(missing_ok=True)
    copy_file(backup.folder / LEDGER_FILE, new_ledger)
    db = connect(new_ledger)
    try:
        db.execute("PRAGMA synchronous = FULL")
        with db:
            SqliteTx(db.cursor(), queries(), 0).run("ledger_copied", at=backup.manifest.at, incarnation=incarnation)
    finally:
        db.close()


def _read_incarnations(ledger: Path) -> dict[str, int]:
    """Return the incarnation of the ledger in this place, by its name, from its mark and from the ledger itself.

    The ledger may be damaged, and has no mark if it was restored and not started since.
    """
    mark = mark_file.read_mark(ledger)
    incarnations = {} if mark is None else {mark.ledger: mark.incarnation}
    row = _read_row(ledger) if ledger.exists() else None
    if row is not None:
        incarnations[row.name] = max(row.incarnation, incarnations.get(row.name, 0))
    return incarnations


def _read_row(ledger: Path) -> LedgerRow | None:
    """Return what the ledger says of itself; None if it cannot be read."""
    with suppress(apsw.Error):
        db = connect(ledger, readonly=True)
        try:
            return SqliteTx(db.cursor(), queries(), 0).one(LedgerRow, "ledger_get")
        finally:
            db.close()
    return None


def _replace_ledger(ledger: Path, new_ledger: Path, plan: _Replacement) -> Path | None:
    """Move the old ledger aside, and put the new one in its place. An interrupted call can be repeated.

    Return the folder that now contains the old ledger; None if there was none.
    """
    flag, folder, aside = restoring_flag_path(ledger), ledger.parent, plan.aside
    if _read_replacement(ledger) is None:
        _begin_replacement(ledger, plan)
    aside.mkdir(mode=0o700, exist_ok=True)
    for suffix in COMPANION_SUFFIXES:  # SQLite would apply a log that stayed to the new file
        _move_aside(ledger.with_name(ledger.name + suffix), aside)
    if plan.has_ledger and ledger.exists() and not (aside / ledger.name).exists():
        _keep_ledger(ledger, aside / ledger.name)
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


def _keep_ledger(ledger: Path, kept: Path) -> None:
    """Give the old ledger a second name, so that there is a ledger at any time, until the new one replaces it.

    A file system without hard links (FAT, exFAT, some network file systems) moves it. Until the new one is in its place
    there is none, but neither does a gateway start (`restoring_flag_path`), and the call can be repeated.
    """
    try:
        os.link(ledger, kept)
    except OSError:
        ledger.rename(kept)


def _move_aside(path: Path, aside: Path) -> None:
    """Move a file of the old ledger aside, if it exists.

    If an interrupted run moved it already, what is in its place now is not the old file, and is deleted.
    """
    if (aside / path.name).exists():
        path.unlink(missing_ok=True)
    else:
        with suppress(FileNotFoundError):
            path.rename(aside / path.name)


def _plan_replacement(ledger: Path, clock: Callable[[], int]) -> _Replacement:
    aside = ledger.with_name(f"replaced-{format_utc_stamp(clock())}")
    while aside.exists():
        aside = aside.with_name(f"{aside.name}x")
    return _Replacement(aside, ledger.exists(), _read_incarnations(ledger))


def _begin_replacement(ledger: Path, plan: _Replacement) -> None:
    """Create `ledger.db.restoring`, which keeps gateways from starting, and says how to go on."""
    content = {"aside": plan.aside.name, "has_ledger": plan.has_ledger, "incarnations": dict(plan.incarnations)}
    write_atomically(restoring_flag_path(ledger), json.dumps(content) + "\n")
    sync_folder(ledger.parent)


def _read_replacement(ledger: Path) -> _Replacement | None:
    """Return what an interrupted run was replacing; None if there was none, or if it cannot be read."""
    try:
        content = json.loads(restoring_flag_path(ledger).read_text("utf-8"))
        incarnations = {str(name): int(count) for name, count in content.get("incarnations", {}).items()}
        aside = ledger.with_name(str(content["aside"]))
        return _Replacement(aside, bool(content.get("has_ledger", True)), incarnations)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
