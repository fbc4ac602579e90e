"""The mark file beside the ledger: detects that the ledger file is an older copy (Law 14).

`<ledger>.mark` has two slots, written in turn, each with a checksum. It records how many commits the ledger has seen. A
commit is durable before its mark is written, and the mark is written before any caller learns of the commit, so before
anything is sent. A kill or power failure can therefore leave the mark behind its ledger, never ahead of it: a ledger
that is behind its mark is an older copy. The mark costs one small write per commit; it is not synced each time.

The mark also identifies the write-ahead log and records how far the database file had come when that log began. SQLite
begins a new log only when the previous one is completely in the database file and synced, so the file cannot be behind
that point while that log lies beside it. If it is, it is another file, and SQLite would apply the log to the wrong
database. If the mark does not know the log (after a power failure the mark may be older), nothing is concluded: an
intact ledger is never refused.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from semel.ledger.storage import wal

SUFFIX = ".mark"
SLOT_BYTES = 512


@dataclass(frozen=True)
class Mark:
    """Position of a ledger: its name, its incarnation (which life it is in) and the number of commits by gateways.

    `log` identifies the write-ahead log beside it (`log_beside`), empty if unknown. `base` is the (incarnation,
    commits) of the database file when that log began.
    """

    ledger: str
    incarnation: int
    commits: int
    log: str = field(default="", compare=False)
    base: tuple[int, int] = field(default=(0, 0), compare=False)

    @property
    def come(self) -> tuple[int, int]:
        """The pair that orders the marks of one ledger."""
        return self.incarnation, self.commits

    def is_ahead_of(self, other: Mark) -> bool:
        """Whether the other mark, of the same ledger, is of an earlier commit or incarnation."""
        return self.come > other.come


def path_of(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + SUFFIX)


def read(ledger: Path) -> Mark | None:
    """The newest readable mark of a ledger, or `None`."""
    try:
        content = path_of(ledger).read_bytes()
    except OSError:
        return None
    slots = [_read_slot(content[at : at + SLOT_BYTES]) for at in (0, SLOT_BYTES)]
    found = [one for one in slots if one is not None]
    return max(found, key=lambda one: one.come, default=None)


def _read_slot(slot: bytes) -> Mark | None:
    text, _, check = slot.rstrip(b"\0").rpartition(b" ")
    try:
        if int(check, 16) != zlib.crc32(text):
            return None
        told = json.loads(text)
        life, commits = told.get("base", (0, 0))
        log, base = str(told.get("log", "")), (int(life), int(commits))
        return Mark(str(told["ledger"]), int(told["incarnation"]), int(told["commits"]), log, base)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _slot(mark: Mark) -> bytes:
    text = json.dumps(asdict(mark)).encode()
    return (text + b" %08x" % zlib.crc32(text)).ljust(SLOT_BYTES, b"\0")


class MarkFile:
    """Writes the mark of an open ledger.

    The constructor raises OSError if the file cannot be written. If a later write fails, an older mark stays.
    """

    def __init__(self, ledger: Path, mark: Mark) -> None:
        """Write `mark` into both slots and sync, replacing any earlier mark."""
        path = path_of(ledger)
        self._ledger = ledger
        self._mark = mark
        self._whole: tuple[int, int] | None = None  # position of a file that holds the whole log
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(self._file, _slot(mark) * 2, 0)
        os.fsync(self._file)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def note(self, commits: int, incarnation: int) -> None:
        """Record the ledger's position after a commit."""
        self._mark = replace(self._mark, incarnation=incarnation, commits=commits)
        if self._whole is not None:
            log = wal.log_beside(self._ledger)
            if log != self._mark.log:
                self._mark = replace(self._mark, log=log, base=self._whole)
            self._whole = None
        try:
            os.pwrite(self._file, _slot(self._mark), commits % 2 * SLOT_BYTES)
        except OSError:
            pass  # an older mark stays: less is recognised, and nothing is taken for what it is not

    def note_whole(self) -> None:
        """Record that the whole log has been moved into the database file and synced."""
        self._whole = self._mark.come

    def close(self) -> None:
        try:
            os.fsync(self._file)
        except OSError:
            pass
        os.close(self._file)
