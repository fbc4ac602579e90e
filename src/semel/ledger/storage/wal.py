"""The write-ahead log: its identity, its backlog, and the checkpoints that move it into the database file."""

from __future__ import annotations

from pathlib import Path

import apsw

_HEADER_BYTES = 32
_SALTS = slice(16, 24)  # https://sqlite.org/fileformat2.html, "WAL Header Format"


def log_beside(ledger: Path) -> str:
    """Identity of the log beside the ledger, "" if there is none: the salts that SQLite chooses when it begins a
    log."""
    try:
        with ledger.with_name(f"{ledger.name}-wal").open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return ""
    return header[_SALTS].hex() if len(header) == _HEADER_BYTES else ""


class Wal:
    """Tracks the log of the writing connection, in place of SQLite's automatic checkpoints.

    A checkpoint inside a commit makes one commit in eighty slow, so the writer runs checkpoints when nobody waits.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self.pages = 0
        self._moved = 0  # of these, already in the database file
        db.set_wal_hook(self._grew)

    @property
    def backlog(self) -> int:
        """Pages (4 KiB) in the log that are not yet in the database file."""
        return self.pages - self._moved

    def checkpoint(self) -> None:
        """Move the log into the database file as far as readers allow (PASSIVE: it waits for nobody).

        The log file is kept and overwritten: 2.7 times cheaper than appending to a new one. Raises apsw.Error; nothing
        is lost then, because the log holds everything and a later checkpoint moves it.
        """
        try:
            self.pages, self._moved = self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            self._moved = self.pages  # do not retry at once: the backlog counts again after the next commit
            raise

    def _grew(self, db: apsw.Connection, name: str, pages: int) -> int:
        if pages < self._moved:
            self._moved = 0  # SQLite restarted the log from its beginning
        self.pages = pages
        return apsw.SQLITE_OK
