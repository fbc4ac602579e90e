"""Copy a ledger in use. The copy is consistent, checked, and marked as a copy.

The copy is the ledger at one commit. A read transaction pins that state, so SQLite's backup never has to restart,
however much is written meanwhile. Readers do not block the writer, but the write-ahead log grows until the copy is
complete. The memory used does not depend on the ledger's size.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from semel.ledger.admin import books
from semel.ledger.sqlite.connect import connect
from semel.ledger.sqlite.open_ledger import refuse_unfinished
from semel.ledger.sqlite.tx import SqliteTx
from semel.ledger.storage.rows import LedgerRow
from semel.ledger.storage.sql import queries

PAGES_PER_STEP = 256  # 1 MiB
STEPS_PER_SYNC = 8
"""Steps between two syncs of the copy: one large sync would make the gateway's own syncs wait for it."""

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class LedgerSnapshot:
    """The description of a finished copy.

    `at`: when it was taken (ms). `heights`: the newest row id of each table that only grows. `counts`: the number of
    rows of each kind. `books`: how many books were checked; `broken`: those that do not hold.
    """

    path: Path
    ledger: str
    incarnation: int
    commits: int
    schema: int
    at: int
    heights: dict[str, int]
    counts: dict[str, int]
    books: int
    broken: tuple[str, ...]


class SnapshotDamaged(Exception):
    """The copy failed SQLite's integrity check. The message is the result of the check."""


def take_snapshot(ledger: Path, target: Path, clock: Callable[[], int]) -> LedgerSnapshot:
    """Copy the ledger into the new file `target`, check the copy, and mark it as a copy. Return its description.

    Raises SnapshotDamaged, apsw.Error, OSError.
    """
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    at = _copy_pages(ledger, target, clock)
    db = connect(target)
    try:
        with _raise_os_errors(db):
            return _finish_snapshot(db, target, at)
    finally:
        db.close()


def _finish_snapshot(db: apsw.Connection, target: Path, at: int) -> LedgerSnapshot:
    db.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    db.execute("PRAGMA synchronous = FULL")
    _check_integrity(db)
    with db:
        SqliteTx(db.cursor(), queries(), at).run("ledger_copied", at=at, incarnation=0)
    return _describe_snapshot(db, target, at)


@contextmanager
def _raise_os_errors(db: apsw.Connection) -> Iterator[None]:
    """Translate SQLite's I/O errors into the OSErrors that caused them."""
    try:
        yield
    except apsw.IOError as error:
        if db.system_errno:
            raise OSError(db.system_errno, os.strerror(db.system_errno)) from error
        raise


def _copy_pages(ledger: Path, target: Path, clock: Callable[[], int]) -> int:
    source, copy = connect(ledger, readonly=True), apsw.Connection(str(target))
    try:
        copy.execute("PRAGMA synchronous = OFF")  # synced below, in pieces
        source.execute("BEGIN")
        # The first read fixes the state that is copied.
        SqliteTx(source.cursor(), queries(), 0).one(LedgerRow, "ledger_get")
        refuse_unfinished(ledger)  # a restore that begins later moves files which are open by now
        at = clock()
        descriptor = os.open(target, os.O_RDWR | os.O_CLOEXEC)
        try:
            with _raise_os_errors(copy), copy.backup("main", source, "main") as backup:
                steps = 0
                while not backup.done:
                    backup.step(PAGES_PER_STEP)
                    steps += 1
                    if steps % STEPS_PER_SYNC == 0:
                        os.fsync(descriptor)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return at
    finally:
        copy.close()
        source.close()


def _check_integrity(db: apsw.Connection) -> None:
    results = [str(row[0]) for row in db.execute("PRAGMA integrity_check(3)")]
    if results != ["ok"]:
        raise SnapshotDamaged("; ".join(results)[:300])


def _describe_snapshot(db: apsw.Connection, path: Path, at: int) -> LedgerSnapshot:
    tx = SqliteTx(db.cursor(), queries(), at)
    ledger = tx.one(LedgerRow, "ledger_get")
    if ledger is None:
        raise SnapshotDamaged("it does not say which ledger it is")
    checked_books = books.audit(tx, max_rows=1)
    schema: int = db.execute("PRAGMA user_version").get
    return LedgerSnapshot(
        path=path, ledger=ledger.name, incarnation=ledger.incarnation, commits=ledger.commits,
        schema=schema, at=at, heights=tx.dicts("ledger_heights")[0], counts=books.count_rows(tx),
        books=len(checked_books), broken=tuple(book.name for book in checked_books if not book.ok),
    )  # fmt: skip


def digest_file(path: Path) -> tuple[str, int]:
    """Return the BLAKE2b-256 digest of a file, in hex, and the file's size in bytes."""
    digest, size = hashlib.blake2b(digest_size=32), 0
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size
