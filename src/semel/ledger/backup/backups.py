"""Make, find, check and delete backups.

They lie in one folder, which also has a store of files that all backups share.

    FOLDER/
      semel-backups.json                 names the ledger whose backups these are
      blobs/<id>                         files, named by the digest of their content, each stored once
      2026-11-23T04-24-52Z/              one complete backup
        ledger.db  manifest.json  tokens/
      .unfinished-.../                   an interrupted backup: ignored, and removed by the next backup

A backup gets its name by one rename, after everything in it and every file it needs has been synced to disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import apsw

from semel.ledger.backup.snapshot import (
    CHUNK_BYTES,
    SnapshotDamaged,
    digest_file,
    take_snapshot,
)
from semel.ledger.sqlite.connect import connect
from semel.ledger.sqlite.open_ledger import Lock, check_readable
from semel.ledger.sqlite.tx import SqliteTx
from semel.ledger.storage.atomic_files import name_draft, sync_folder, write_atomically
from semel.ledger.storage.errors import (
    NO_SPACE,
    BackupDamaged,
    BackupFailed,
    BackupFolderDenied,
    BackupFolderInUse,
    BackupFull,
    BackupNewer,
    BackupOfAnother,
    BackupRuns,
    LedgerError,
    NoBackup,
)
from semel.ledger.storage.migrations import list_migrations
from semel.ledger.storage.rows import LedgerRow
from semel.ledger.storage.sql import queries
from semel.text.json_types import Json
from semel.timing.walltime import format_utc

FORMAT = 1
FOLDER_FILE = "semel-backups.json"
MANIFEST_FILE = "manifest.json"
LEDGER_FILE = "ledger.db"
BLOBS, TOKENS = "blobs", "tokens"
UNFINISHED_PREFIX = ".unfinished-"
PAGE = 1000  # blobs read at a time


@dataclass(frozen=True)
class Manifest:
    """The manifest of a backup, which describes its content. `at` is in ms.

    `heights`: the newest row id of each table that only grows. `counts`: the number of rows of each kind. `books`: how
    many books were checked; `broken`: the names of those that do not hold. `missing`: the ids of files that were
    missing or damaged when the backup was made.
    """

    format: int
    semel: str
    schema: int
    ledger: str
    incarnation: int
    commits: int
    at: int
    time: str
    heights: dict[str, int]
    counts: dict[str, int]
    books: int
    broken: list[str]
    digest: str
    bytes: int
    blobs: int
    blob_bytes: int
    missing: list[str]
    tokens: list[str]


@dataclass(frozen=True)
class Backup:
    """A complete backup and its folder.

    `copied`: the number of files that this run copied; older backups had the others.
    """

    folder: Path
    manifest: Manifest
    copied: int = 0

    @property
    def store(self) -> Path:
        """The folder that contains the files which the backup's ledger needs."""
        return self.folder.parent / BLOBS


def make_backup(
    ledger: Path, data_dir: Path, folder: Path, *, semel: str, clock: Callable[[], int], tokens: bool = False
) -> Backup:
    """Back up a ledger, which may be in use, and its files into `folder`. Return the backup.

    `semel`: the version to state in the manifest. `tokens`: copy the token files, too. Raises LedgerError, and then
    leaves no backup behind.
    """
    ledger = check_readable(ledger, list_migrations()[-1].version)
    folder = Path(os.path.realpath(folder.expanduser()))
    with raise_ledger_errors(folder):
        name = _read_ledger_name(ledger)
        try:
            _open_folder(folder, name)
        except PermissionError as error:
            why = f"{error.filename}: {error.strerror}"
            target = shlex.quote(str(folder))
            raise BackupFolderDenied(folder=folder, why=why, name=os.geteuid(), target=target) from error
        with lock_folder(folder):
            _remove_unfinished(folder)
            unfinished = folder / f"{UNFINISHED_PREFIX}{secrets.token_hex(4)}"
            try:
                unfinished.mkdir(mode=0o700)
                return _write_backup(ledger, data_dir, folder, unfinished, semel, clock, tokens)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise


def _write_backup(
    ledger: Path, data_dir: Path, folder: Path, unfinished: Path, semel: str, clock: Callable[[], int], tokens: bool
) -> Backup:
    snapshot = take_snapshot(ledger, unfinished / LEDGER_FILE, clock)
    copied, missing, blob_count, blob_bytes = 0, [], 0, 0
    for blob_id, expected in read_blobs(snapshot.path):
        blob_count, blob_bytes = blob_count + 1, blob_bytes + expected
        if is_stored(folder / BLOBS, blob_id, expected):
            continue
        if copy_blob(data_dir / BLOBS / blob_id, folder / BLOBS, blob_id, UNFINISHED_PREFIX):
            copied += 1
        else:
            missing.append(blob_id)
    sync_folder(folder / BLOBS)
    copied_tokens = _copy_tokens(data_dir, unfinished / TOKENS) if tokens else []
    digest, length = digest_file(snapshot.path)
    manifest = Manifest(
        format=FORMAT, semel=semel, schema=snapshot.schema, ledger=snapshot.ledger, incarnation=snapshot.incarnation,
        commits=snapshot.commits, at=snapshot.at, time=format_utc(snapshot.at), heights=snapshot.heights,
        counts=snapshot.counts, books=snapshot.books, broken=list(snapshot.broken), digest=digest, bytes=length,
        blobs=blob_count, blob_bytes=blob_bytes, missing=missing, tokens=copied_tokens,
    )  # fmt: skip
    write_atomically(unfinished / MANIFEST_FILE, _format_json(asdict(manifest)))
    sync_folder(unfinished)
    complete = _find_free_name(folder, snapshot.at)
    unfinished.rename(complete)
    sync_folder(folder)
    return Backup(complete, manifest, copied)


# ---------------------------------------------------------------- the folder


def _open_folder(folder: Path, ledger: str) -> None:
    """Create the folder, or check that it holds backups of this ledger. Raises BackupOfAnother, BackupFolderInUse."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = _read_owner(folder)
    if owner is None:
        if any(path.name != name_draft(folder / FOLDER_FILE).name for path in folder.iterdir()):
            raise BackupFolderInUse(folder=folder)
        folder.chmod(0o700)
        write_atomically(folder / FOLDER_FILE, _format_json({"format": FORMAT, "ledger": ledger}))
        sync_folder(folder)
    elif owner != ledger:
        raise BackupOfAnother(folder=folder, ledger=owner)
    (folder / BLOBS).mkdir(mode=0o700, exist_ok=True)


def _read_owner(folder: Path) -> str | None:
    """Return the name of the ledger whose backups a folder holds; None if it is not a folder of backups."""
    try:
        return str(json.loads((folder / FOLDER_FILE).read_text("utf-8"))["ledger"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of backups, which allows one backup at a time.

    Raises BackupRuns if another process holds it.
    """
    lock = Lock(folder / ".lock", lambda pid: BackupRuns(folder=folder, pid=pid))
    try:
        yield
    finally:
        lock.release()


def _remove_unfinished(folder: Path) -> None:
    """Remove the files of interrupted backups."""
    for path in folder.glob(f"{UNFINISHED_PREFIX}*"):
        shutil.rmtree(path)
    for path in (folder / BLOBS).glob(f"{UNFINISHED_PREFIX}*"):
        path.unlink()


def _find_free_name(folder: Path, at: int) -> Path:
    stamp = format_utc_stamp(at)
    names = (stamp if n == 1 else f"{stamp}-{n:02}" for n in range(1, 100))
    return next(folder / name for name in names if not (folder / name).exists())


@contextmanager
def raise_ledger_errors(folder: Path, error_class: type[LedgerError] = BackupFailed) -> Iterator[None]:
    """Translate errors of the disk and of SQLite into an `error_class`, whose message says what to do."""
    full_class = BackupFull if error_class is BackupFailed else error_class
    try:
        yield
    except SnapshotDamaged as unsound:
        raise error_class(folder=folder, why=f"the copy does not pass the integrity check: {unsound}") from unsound
    except apsw.FullError as full:
        raise full_class(folder=folder, why=str(full)) from full
    except apsw.Error as error:
        raise error_class(folder=folder, why=f"SQLite: {error}") from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise (full_class if error.errno in NO_SPACE else error_class)(
            folder=folder, why=f"{place}{error.strerror or error}"
        ) from error


# ---------------------------------------------------------------- what is copied


def _read_ledger_name(ledger: Path) -> str:
    db = connect(ledger, readonly=True)
    try:
        row = SqliteTx(db.cursor(), queries(), 0).one(LedgerRow, "ledger_get")
        assert row is not None
        return row.name
    finally:
        db.close()


def read_blobs(ledger: Path) -> Iterator[tuple[str, int]]:
    """Yield the id and the size (in bytes) of each file that a ledger needs."""
    db = connect(ledger, readonly=True)
    try:
        tx, after = SqliteTx(db.cursor(), queries(), 0), ""
        while rows := tx.pairs(str, int, "blobs_in_use", after=after, limit=PAGE):
            yield from rows
            after = rows[-1][0]
    finally:
        db.close()


def is_stored(store: Path, id: str, size: int) -> bool:
    """Whether the store has a file with this id, of this size in bytes."""
    try:
        status = (store / id).lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def copy_blob(source: Path, store: Path, id: str, draft_prefix: str) -> bool:
    """Copy one file into the store, completely or not at all.

    Return False if the file is missing, or if its content does not match its id. `draft_prefix`: of the file's name
    until it is complete.
    """
    draft = store / f"{draft_prefix}{id}"
    try:
        if copy_file(source, draft) != id:
            return False
        draft.rename(store / id)
        return True
    except FileNotFoundError:  # the file was deleted meanwhile, with the session that held it
        return False
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def copy_file(source: Path, target: Path) -> str:
    """Copy a file to a new path and sync it. Return the BLAKE2b-256 digest of the copied bytes, in hex."""
    digest = hashlib.blake2b(digest_size=32)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(source, flags), "rb") as original:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as copy:
            while piece := original.read(CHUNK_BYTES):
                digest.update(piece)
                copy.write(piece)
            copy.flush()
            os.fsync(copy.fileno())
    return digest.hexdigest()


def _copy_tokens(data_dir: Path, folder: Path) -> list[str]:
    names = sorted(path.name for path in data_dir.glob("*.token") if path.is_file() and not path.is_symlink())
    if names:
        folder.mkdir(mode=0o700)
    for name in names:
        copy_file(data_dir / name, folder / name)
    if names:
        sync_folder(folder)
    return names


# ---------------------------------------------------------------- reading backups


def find_backup(folder: Path) -> Backup:
    """Return the backup in this folder itself, or else the newest backup in one of its subfolders.

    Raises NoBackup, BackupDamaged, BackupNewer.
    """
    folder = folder.expanduser().absolute()
    if (folder / MANIFEST_FILE).exists():
        return read_backup(folder)
    paths = list_backups(folder)
    if not paths:
        raise NoBackup(folder=folder, why="there is no manifest.json in it" if folder.is_dir() else "no such folder")
    return max((read_backup(path) for path in paths), key=lambda one: (one.manifest.at, one.folder.name))


def list_backups(folder: Path) -> list[Path]:
    """Return the folders of the complete backups in a folder, ordered by name."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in paths if not path.name.startswith(".") and (path / MANIFEST_FILE).is_file()]


def read_backup(folder: Path) -> Backup:
    """Return the backup in a folder, reading only its manifest. Raises BackupDamaged, BackupNewer."""
    try:
        manifest = json.loads((folder / MANIFEST_FILE).read_text("utf-8"))
        if int(manifest["format"]) > FORMAT or int(manifest["schema"]) > list_migrations()[-1].version:
            raise BackupNewer(folder=folder, found=manifest["semel"])
        return Backup(folder, Manifest(**{name: manifest[name] for name in Manifest.__dataclass_fields__}))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BackupDamaged(folder=folder, why=f"its manifest cannot be read ({error!r})") from error


def check_backup(backup: Backup) -> list[tuple[str, int]]:
    """Check the ledger and all files of a backup against their digests.

    Return the id and the size (in bytes) of each file. Raises BackupDamaged.
    """
    ledger = backup.folder / LEDGER_FILE
    try:
        if digest_file(ledger) != (backup.manifest.digest, backup.manifest.bytes):
            raise BackupDamaged(folder=backup.folder, why="ledger.db is not what was written")
        missing = set(backup.manifest.missing)
        blobs = [(id, size) for id, size in read_blobs(ledger) if id not in missing]
        for id, size in blobs:
            if digest_file(backup.store / id) != (id, size):
                raise BackupDamaged(folder=backup.folder, why=f"the file {backup.store / id} is not what was written")
    except (OSError, apsw.Error) as error:
        raise BackupDamaged(folder=backup.folder, why=str(error)) from error
    return blobs


def drop_old_backups(folder: Path, keep: int) -> list[Path]:
    """Remove all but the newest `keep` backups in a folder, and the files that only the removed backups needed.

    Return the former folders of the removed backups. A backup is renamed to an unfinished one before it is removed, so
    a partly removed backup is never restored. If the run is killed, the next backup removes the unfinished ones, and
    the next run of this function removes the files. Raises LedgerError.
    """
    assert keep >= 1
    folder = folder.expanduser().absolute()
    with raise_ledger_errors(folder), lock_folder(folder):
        backups = sorted(list_backups(folder), key=lambda path: (read_backup(path).manifest.at, path.name))
        outdated, remaining = backups[:-keep], backups[-keep:]
        needed = {id for path in remaining for id, _ in read_blobs(path / LEDGER_FILE)}
        unfinished = [path.rename(folder / f"{UNFINISHED_PREFIX}{path.name}") for path in outdated]
        sync_folder(folder)
        for path in unfinished:
            shutil.rmtree(path)
        for blob in (folder / BLOBS).iterdir():
            if blob.name not in needed:
                blob.unlink()
        return outdated


def format_utc_stamp(at: int) -> str:
    """Format a time in milliseconds since the Unix epoch as the name of a backup's folder (UTC)."""
    return time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime(at / 1000))


def _format_json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
