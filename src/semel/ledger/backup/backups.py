"""A folder of backups: one folder for each, and one store of files that all of them share.

    FOLDER/
      semel-backups.json                 which ledger it is of
      blobs/<id>                         files, by the digest of their content: each is there once
      2026-11-23T04-24-52Z/              one backup, whole
        ledger.db  manifest.json  tokens/
      .unfinished-.../                   one that was cut off: never taken for whole, removed by the next backup

A backup becomes visible by one rename, after everything in it and every file it needs is on the disk.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import apsw

from semel.ledger.backup.snapshot import CHUNK_BYTES, Snapshot, Unsound, digest_of, take_snapshot
from semel.ledger.storage import migrate
from semel.ledger.storage.connect import connect
from semel.ledger.storage.errors import (
    BackupDamaged,
    BackupFailed,
    BackupFolderInUse,
    BackupFull,
    BackupNewer,
    BackupOfAnother,
    BackupRuns,
    LedgerError,
    NoBackup,
)
from semel.ledger.storage.opening import check_readable
from semel.ledger.storage.sql import Tx, queries

FORMAT = 1
FOLDER_FILE = "semel-backups.json"
MANIFEST_FILE = "manifest.json"
LEDGER_FILE = "ledger.db"
BLOBS, TOKENS = "blobs", "tokens"
UNFINISHED = ".unfinished-"
PAGE = 1000  # blobs read at a time
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Json = dict[str, Any]


@dataclass(frozen=True)
class Manifest:
    """What a backup states about itself. Times in ms. `missing`: files that were gone or damaged before the copy."""

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
    """A complete backup and its folder. `copied`: files that earlier backups did not have."""

    folder: Path
    manifest: Manifest
    copied: int = 0

    @property
    def store(self) -> Path:
        """Where its files are."""
        return self.folder.parent / BLOBS


def make_backup(
    ledger: Path, data_dir: Path, folder: Path, *, semel: str, clock: Callable[[], int], tokens: bool = False
) -> Backup:
    """Back up a ledger, which may be in use, with its files. Raises LedgerError; then nothing of it is kept."""
    ledger = check_readable(ledger, migrate.steps()[-1].version)
    folder = folder.expanduser().absolute()
    with failing(folder):
        name = _name_of(ledger)
        _open_folder(folder, name)
        with lock_folder(folder):
            _sweep(folder)
            unfinished = folder / f"{UNFINISHED}{secrets.token_hex(4)}"
            try:
                unfinished.mkdir(mode=0o700)
                return _make(ledger, data_dir, folder, unfinished, semel, clock, tokens)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise


def _make(
    ledger: Path, data_dir: Path, folder: Path, unfinished: Path, semel: str, clock: Callable[[], int], tokens: bool
) -> Backup:
    snapshot = take_snapshot(ledger, unfinished / LEDGER_FILE, clock)
    copied, missing, number, size = 0, [], 0, 0
    for id, expected in blobs_of(snapshot.path):
        number, size = number + 1, size + expected
        if _is_stored(folder / BLOBS, id, expected):
            continue
        if _copy_blob(data_dir / BLOBS / id, folder / BLOBS, id):
            copied += 1
        else:
            missing.append(id)
    sync_folder(folder / BLOBS)
    kept_tokens = _copy_tokens(data_dir, unfinished / TOKENS) if tokens else []
    digest, length = digest_of(snapshot.path)
    manifest = _manifest(snapshot, semel, digest, length, (number, size), missing, kept_tokens)
    write_whole(unfinished / MANIFEST_FILE, _dumped(asdict(manifest)))
    sync_folder(unfinished)
    whole = _free_name(folder, snapshot.at)
    unfinished.rename(whole)
    sync_folder(folder)
    return Backup(whole, manifest, copied)


def _manifest(
    snapshot: Snapshot, semel: str, digest: str, length: int, blobs: tuple[int, int], missing: list[str],
    tokens: list[str],
) -> Manifest:  # fmt: skip
    return Manifest(
        format=FORMAT, semel=semel, schema=snapshot.schema, ledger=snapshot.ledger, incarnation=snapshot.incarnation,
        commits=snapshot.commits, at=snapshot.at, time=utc(snapshot.at), heights=snapshot.heights,
        counts=snapshot.counts, books=snapshot.books, broken=list(snapshot.broken), digest=digest, bytes=length,
        blobs=blobs[0], blob_bytes=blobs[1], missing=missing, tokens=tokens,
    )  # fmt: skip


# ---------------------------------------------------------------- the folder


def _open_folder(folder: Path, ledger: str) -> None:
    """Make it, or see that it is one for this ledger. Raises BackupOfAnother, BackupFolderInUse."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = _ledger_of(folder)
    if known is None:
        if any(path.name != _draft(folder / FOLDER_FILE).name for path in folder.iterdir()):
            raise BackupFolderInUse(folder=folder)
        folder.chmod(0o700)
        write_whole(folder / FOLDER_FILE, _dumped({"format": FORMAT, "ledger": ledger}))
        sync_folder(folder)
    elif known != ledger:
        raise BackupOfAnother(folder=folder, ledger=known)
    (folder / BLOBS).mkdir(mode=0o700, exist_ok=True)


def _ledger_of(folder: Path) -> str | None:
    """The name of the ledger whose backups a folder holds; None if it is not a folder of backups."""
    try:
        return str(json.loads((folder / FOLDER_FILE).read_text("utf-8"))["ledger"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Allow one backup at a time. The kernel releases the lock when the process ends, however it ends."""
    file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(file, 32, 0).decode("ascii", "replace").strip()
            raise BackupRuns(folder=folder, pid=pid or "unknown") from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def _sweep(folder: Path) -> None:
    """Remove what interrupted backups left."""
    for left in folder.glob(f"{UNFINISHED}*"):
        shutil.rmtree(left)
    for left in (folder / BLOBS).glob(f"{UNFINISHED}*"):
        left.unlink()


def _free_name(folder: Path, at: int) -> Path:
    stamp = utc_stamp(at)
    names = (stamp if n == 1 else f"{stamp}-{n:02}" for n in range(1, 100))
    return next(folder / name for name in names if not (folder / name).exists())


@contextmanager
def failing(folder: Path, kind: type[LedgerError] = BackupFailed) -> Iterator[None]:
    """Turn errors of the disk and of SQLite into LedgerErrors that say what to do."""
    full_kind = BackupFull if kind is BackupFailed else kind
    try:
        yield
    except Unsound as unsound:
        raise kind(folder=folder, why=f"the copy does not pass the integrity check: {unsound}") from unsound
    except apsw.FullError as full:
        raise full_kind(folder=folder, why=str(full)) from full
    except apsw.Error as fault:
        raise kind(folder=folder, why=f"SQLite: {fault}") from fault
    except OSError as fault:
        place = f"{fault.filename}: " if fault.filename else ""
        raise (full_kind if fault.errno in NO_SPACE else kind)(
            folder=folder, why=f"{place}{fault.strerror or fault}"
        ) from fault


# ---------------------------------------------------------------- what is copied


def _name_of(ledger: Path) -> str:
    db = connect(ledger, readonly=True)
    try:
        return str(Tx(db.cursor(), queries(), 0).value("ledger_get"))
    finally:
        db.close()


def blobs_of(ledger: Path) -> Iterator[tuple[str, int]]:
    """(id, size) of each file that a ledger needs."""
    db = connect(ledger, readonly=True)
    try:
        tx, after = Tx(db.cursor(), queries(), 0), ""
        while rows := tx.all("blobs_in_use", after=after, limit=PAGE):
            yield from ((str(row.id), int(row.size)) for row in rows)
            after = rows[-1].id
    finally:
        db.close()


def _is_stored(store: Path, id: str, size: int) -> bool:
    try:
        found = (store / id).lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def _copy_blob(source: Path, store: Path, id: str) -> bool:
    """Copy one file, whole or not at all. False: it is not there, or not what its name says."""
    draft = store / f"{UNFINISHED}{id}"
    try:
        if copy_file(source, draft) != id:
            return False
        draft.rename(store / id)
        return True
    except FileNotFoundError:  # deleted meanwhile, with the session that held it
        return False
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def copy_file(source: Path, target: Path) -> str:
    """Copy a file into a new one and sync it; return the BLAKE2b-256 of the copied bytes, in hex."""
    digest = hashlib.blake2b(digest_size=32)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(source, flags), "rb") as given:
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(made, "wb") as copy:
            while piece := given.read(CHUNK_BYTES):
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


def write_whole(path: Path, text: str) -> None:
    """Write a file for its owner only, so that after a crash it is complete or absent."""
    draft = _draft(path)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---------------------------------------------------------------- reading backups


def find_backup(folder: Path) -> Backup:
    """The backup in this folder itself, or the newest one below it. Raises NoBackup, BackupDamaged, BackupNewer."""
    folder = folder.expanduser().absolute()
    if (folder / MANIFEST_FILE).exists():
        return read_backup(folder)
    found = whole_backups(folder)
    if not found:
        raise NoBackup(folder=folder, why="there is no manifest.json in it" if folder.is_dir() else "no such folder")
    return max((read_backup(path) for path in found), key=lambda one: (one.manifest.at, one.folder.name))


def whole_backups(folder: Path) -> list[Path]:
    """The complete backups in a folder, by name."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in paths if not path.name.startswith(".") and (path / MANIFEST_FILE).is_file()]


def read_backup(folder: Path) -> Backup:
    """One backup, by its manifest alone. Raises BackupDamaged, BackupNewer."""
    try:
        told = json.loads((folder / MANIFEST_FILE).read_text("utf-8"))
        if int(told["format"]) > FORMAT or int(told["schema"]) > migrate.steps()[-1].version:
            raise BackupNewer(folder=folder, found=told["semel"])
        return Backup(folder, Manifest(**{name: told[name] for name in Manifest.__dataclass_fields__}))
    except (OSError, ValueError, LookupError, TypeError) as fault:
        raise BackupDamaged(folder=folder, why=f"its manifest cannot be read ({fault!r})") from fault


def check_backup(backup: Backup) -> list[tuple[str, int]]:
    """Read a whole backup: its ledger and every file must be what the manifest says. Returns (id, size) of its files.

    Raises BackupDamaged.
    """
    ledger = backup.folder / LEDGER_FILE
    try:
        if digest_of(ledger) != (backup.manifest.digest, backup.manifest.bytes):
            raise BackupDamaged(folder=backup.folder, why="ledger.db is not what was written")
        missing = set(backup.manifest.missing)
        blobs = [(id, size) for id, size in blobs_of(ledger) if id not in missing]
        for id, size in blobs:
            if digest_of(backup.store / id) != (id, size):
                raise BackupDamaged(folder=backup.folder, why=f"the file {backup.store / id} is not what was written")
    except (OSError, apsw.Error) as fault:
        raise BackupDamaged(folder=backup.folder, why=str(fault)) from fault
    return blobs


def utc_stamp(at: int) -> str:
    """Milliseconds since the Unix epoch as a folder name."""
    return time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime(at / 1000))


def utc(at: int) -> str:
    """Milliseconds since the Unix epoch as people read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at / 1000))


def _dumped(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
