"""Connections to the ledger's file, set up as docs/decisions/ledger-storage.md decided."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from urllib.parse import quote

import apsw

from semel.ledger.storage.refusals import place_without_wal

PATIENCE = 10.0  # seconds another program may keep the ledger locked before a write is refused
CACHE_KIB = 4096
"""Pages that a connection may keep in memory. The writing one fills whatever it is given as the ledger grows."""
_PAUSE = 0.0002  # SQLite's own waiting (1, 2, 5 ... 100 ms) starves beside a busy writer; this does not


def connect(path: Path | str, *, readonly: bool = False, vfs: str | None = None) -> apsw.Connection:
    """Open the file and set what holds for this connection only. Nothing is written."""
    name, flags = str(path), apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    if readonly:
        name, flags = _for_reading(Path(path)), apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    db = apsw.Connection(name, flags=flags, vfs=vfs, statementcachesize=512)
    db.set_busy_handler(_patience())
    if vfs is not None:  # a disk of the tests: Python file systems share no memory
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
    for pragma in ("foreign_keys = ON", f"cache_size = -{CACHE_KIB}", "temp_store = MEMORY", "trusted_schema = OFF"):
        db.execute(f"PRAGMA {pragma}")
    return db


def _for_reading(path: Path) -> str:
    # A reader needs the log's shared memory beside the file. Where it can make none (a backup on a read-only
    # disk) and there is no log, the file is all there is, and nothing changes it. A live gateway has a log.
    alone = not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()
    return f"file:{quote(str(path))}{'?immutable=1' if alone else ''}"


def make_durable(db: apsw.Connection, path: Path) -> None:
    """Write-ahead log, synced at each commit. Raises LedgerPlace where there is no shared memory for it."""
    db.execute("PRAGMA page_size = 4096")  # counts while the file is empty
    mode: str = db.execute("PRAGMA journal_mode = WAL").get
    if mode not in ("wal", "memory"):
        raise place_without_wal(path, mode)
    db.execute("PRAGMA synchronous = FULL")
    if sys.platform == "darwin":  # fsync alone leaves data in the drive's cache there
        db.execute("PRAGMA fullfsync = ON")
        db.execute("PRAGMA checkpoint_fullfsync = ON")
    # The log file is kept for reuse, but one that a slow reader made huge is cut at its next start.
    db.execute("PRAGMA journal_size_limit = 67108864")
    db.wal_autocheckpoint(0)  # semel.ledger.storage.wal does it


class _patience:
    """A busy handler: try again every 0.2 ms, for PATIENCE seconds in all."""

    def __init__(self) -> None:
        self._until = 0.0

    def __call__(self, tries: int) -> bool:
        if tries == 0:
            self._until = time.monotonic() + PATIENCE
        time.sleep(_PAUSE)
        return time.monotonic() < self._until
