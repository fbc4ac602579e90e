"""Open SQLite connections to the ledger, with the settings that docs/decisions/ledger-storage.md explains."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from urllib.parse import quote

import apsw

from semel.ledger.sqlite.errors import wal_unsupported_error

BUSY_TIMEOUT_S = 10.0  # seconds another program may keep the ledger locked before a write is refused
CACHE_KIB = 4096
"""Page cache of each connection. The writing connection fills any cache it is given as the ledger grows."""
_BUSY_RETRY_DELAY_S = 0.0002  # with SQLite's own back-off (1, 2, 5 ... 100 ms), a busy writer would starve us


def connect(path: Path | str, *, readonly: bool = False, vfs: str | None = None) -> apsw.Connection:
    """Open a SQLite file, apply the settings of a connection, and return the connection. Write nothing to the file."""
    name, flags = str(path), apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    if readonly:
        name, flags = _readonly_uri(Path(path)), apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    db = apsw.Connection(name, flags=flags, vfs=vfs, statementcachesize=512)
    db.set_busy_handler(_BusyHandler())
    # Plans that do not depend on bound values: otherwise SQLite prepares a statement with a bound LIMIT at every run.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    if vfs is not None:  # a test's file system, in Python: it has no shared memory
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
    for pragma in ("foreign_keys = ON", f"cache_size = -{CACHE_KIB}", "temp_store = MEMORY", "trusted_schema = OFF"):
        db.execute(f"PRAGMA {pragma}")
    return db


def _readonly_uri(path: Path) -> str:
    # A reader needs a shared-memory file (-shm) beside the database. In a read-only folder it cannot create one; if
    # there is no log either, no gateway is live and the file can be opened as immutable.
    is_immutable = not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()
    return f"file:{quote(str(path))}{'?immutable=1' if is_immutable else ''}"


def make_durable(db: apsw.Connection, path: Path) -> None:
    """Switch the database to a write-ahead log that is synced at each commit.

    Raises LedgerPlace if the file system cannot support such a log.
    """
    db.execute("PRAGMA page_size = 4096")  # takes effect only while the file is empty
    mode: str = db.execute("PRAGMA journal_mode = WAL").get
    if mode not in ("wal", "memory"):
        raise wal_unsupported_error(path, mode)
    db.execute("PRAGMA synchronous = FULL")
    if sys.platform == "darwin":  # fsync alone leaves data in the drive's cache there
        db.execute("PRAGMA fullfsync = ON")
        db.execute("PRAGMA checkpoint_fullfsync = ON")
    # The log file is kept for reuse. If a slow reader made it huge, SQLite truncates it when the log restarts.
    db.execute("PRAGMA journal_size_limit = 67108864")
    db.wal_autocheckpoint(0)  # `WriteAheadLog` runs the checkpoints


class _BusyHandler:
    """SQLite's busy handler: retry every 0.2 ms until the busy timeout has passed."""

    def __init__(self) -> None:
        self._deadline = 0.0

    def __call__(self, tries: int) -> bool:
        if tries == 0:
            self._deadline = time.monotonic() + BUSY_TIMEOUT_S
        time.sleep(_BUSY_RETRY_DELAY_S)
        return time.monotonic() < self._deadline


def measure_files(path: Path) -> int:
    """Return the size of a ledger's file with its write-ahead log, in bytes. A missing file counts as 0."""
    return _measure_file(path) + _measure_file(Path(f"{path}-wal"))


def _measure_file(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
