"""One gateway per ledger: a lock on `<ledger>.lock`, held for the life of the process.

The kernel releases the lock when the process ends, however it ends. The file is never removed: removing it would let
two processes hold the lock.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from semel.ledger.storage.errors import LedgerInUse


class Lock:
    """An exclusive lock, held from construction until `release`. Construction raises LedgerInUse with the holder's
    pid."""

    def __init__(self, ledger: Path) -> None:
        self._file = os.open(f"{ledger}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
            os.close(self._file)
            raise LedgerInUse(path=ledger, pid=holder or "unknown") from None
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            os.close(self._file)
            raise

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
