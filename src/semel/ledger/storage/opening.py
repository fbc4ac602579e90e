"""Open a ledger: the checks made before it is used, in order, and the files created on the way."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from semel.ledger.storage import mark, migrate, wal
from semel.ledger.storage.connect import connect, make_durable
from semel.ledger.storage.errors import LedgerMissing, LedgerNewer, LedgerOlder, LedgerRestoring, LogOfAnother
from semel.ledger.storage.lock import Lock
from semel.ledger.storage.refusals import failure, refuse_old_sqlite, refuse_place
from semel.ledger.storage.sql import Tx, queries


@dataclass(frozen=True)
class Opened:
    """A writable ledger of the newest schema version.

    `was_whole`: there was no write-ahead log, so the database file held everything.
    """

    path: Path
    db: apsw.Connection
    lock: Lock | None
    was_whole: bool


def open_for_writing(
    path: Path,
    *,
    exclusive: bool,
    clock: Callable[[], int],
    way: Sequence[migrate.Step],
    vfs: str | None = None,
) -> Opened:
    """Create or open the ledger, check it and migrate it. Raises the first group of errors in
    `semel.ledger.storage.errors`.
    """
    refuse_old_sqlite(apsw.sqlite_lib_version())
    path = path.expanduser().resolve()  # two paths of one ledger must share one lock
    lock: Lock | None = None
    db: apsw.Connection | None = None
    try:
        _make_folder(path.parent)
        refuse_place(path.parent)
        lock = Lock(path) if exclusive else None
        if restoring_file(path).exists():
            raise LedgerRestoring(path=path)
        refuse_log_of_another(path)
        was_whole = wal.log_beside(path) == ""
        _make_file(path)
        db = connect(path, vfs=vfs)
        prepare(db, path, way, clock())
        return Opened(path, db, lock, was_whole)
    except BaseException as fault:
        told = failure(fault, path, db.system_errno if db else 0)
        if db is not None:
            db.close()
        if lock is not None:
            lock.release()
        if told is fault:
            raise
        raise told from fault


def restoring_file(ledger: Path) -> Path:
    """Path of the file that exists while a restore replaces the ledger (`semel.ledger.backup.restore`)."""
    return ledger.with_name(f"{ledger.name}.restoring")


def own_mark(tx: Tx) -> mark.Mark:
    """The position that the ledger itself has stored."""
    row = tx.one("ledger_get")
    assert row is not None
    return mark.Mark(str(row.name), int(row.incarnation), int(row.commits))


def refuse_log_of_another(path: Path) -> None:
    """Raise LogOfAnother if the write-ahead log does not belong to the database file.

    Must run before SQLite opens the ledger, as that changes both. Nothing is refused if the mark does not know the log,
    or if the file cannot be read without it (the first log of a ledger holds everything).
    """
    known = mark.read(path)
    if known is None or not known.log or known.log != wal.log_beside(path):
        return
    held = _mark_without_log(path)
    if held is not None and (held.ledger != known.ledger or held.come < known.base):
        raise LogOfAnother(path=path)


def _mark_without_log(path: Path) -> mark.Mark | None:
    try:
        db = apsw.Connection(
            f"file:{quote(str(path))}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
        try:
            return own_mark(Tx(db.cursor(), queries(), 0))
        finally:
            db.close()
    except (apsw.Error, AssertionError, ValueError, TypeError):
        return None


def prepare(db: apsw.Connection, path: Path, way: Sequence[migrate.Step], now: int) -> None:
    """Make an open file a ledger of the newest version, or refuse it before anything in it is changed."""
    migrate.version(db, path)
    make_durable(db, path)
    migrate.migrate_to_newest(db, way, queries(), path, name=secrets.token_hex(8), now=now)
    # A write without effect: a full or read-only disk fails here instead of at the first message.
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"PRAGMA user_version = {way[-1].version}")
    db.execute("COMMIT")


def check_readable(path: Path, known: int) -> Path:
    """Check that a ledger can be read, with or without a running gateway; return its resolved path.

    `known` is the schema version that this Semel reads. Nothing is created, locked or migrated.
    """
    refuse_old_sqlite(apsw.sqlite_lib_version())
    path = path.expanduser().resolve()
    if not path.exists():
        raise LedgerMissing(path=path)
    refuse_log_of_another(path)
    found = _version_of(path)
    if found == 0:
        raise LedgerMissing(path=path)
    if found != known:
        raise (LedgerNewer if found > known else LedgerOlder)(path=path, found=found, known=known)
    return path


def _version_of(path: Path) -> int:
    errno = 0
    try:
        db = connect(path, readonly=True)
        try:
            return migrate.version(db, path)
        finally:
            errno = db.system_errno
            db.close()
    except apsw.Error as fault:
        raise failure(fault, path, errno) from fault


def _make_folder(folder: Path) -> None:
    """Create the data directory for its owner only, and sync its parent so that it survives a power failure."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _make_file(path: Path) -> None:
    """Create an empty file that only its owner can read; SQLite gives -wal and -shm the same mode.

    An existing file is not opened: closing a plain descriptor of an open ledger would drop SQLite's locks on it
    (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
