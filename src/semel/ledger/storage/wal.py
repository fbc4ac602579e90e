"""The write-ahead log: which one it is, how much of it is not yet in the database file, and moving it there."""

from __future__ import annotations

from pathlib import Path

import apsw

_HEADER_BYTES = 32
_SALTS = slice(16, 24)  # https://sqlite.org/fileformat2.html, "WAL Header Format"


def log_beside(ledger: Path) -> str:
    """Which log lies beside the ledger: SQLite salts it anew each time it begins one. Empty: there is none."""
    try:
        with ledger.with_name(f"{ledger.name}-wal").open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return ""
    return header[_SALTS].hex() if len(header) == _HEADER_BYTES else ""


class Wal:
    """Watches the log of the writing connection. SQLite's own checkpoints are switched off by it.

    A checkpoint inside a commit is what makes one commit in eighty slow, so the writer does it when nobody waits.
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
        """Move the log into the database file, as far as readers let it (PASSIVE: it waits for nobody).

        The log file is kept and written over: 2.7 times cheaper than appending to a new one.
        Raises apsw.Error, which is no loss: the log holds everything, and a later checkpoint moves it.
        """
        try:
            self.pages, self._moved = self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            self._moved = self.pages  # no hurry to fail again: the next commit brings it back
            raise

    def _grew(self, db: apsw.Connection, name: str, pages: int) -> int:
        if pages < self._moved:
            self._moved = 0  # the log began again from its start
        self.pages = pages
        return apsw.SQLITE_OK
