"""A mark beside the ledger: how far it has come, so that an older copy of the file is recognised (Law 14).

The file `<ledger>.mark` has two slots, written in turn, each with a check sum. A commit is durable before its mark is
written, and the mark is written before anybody hears of the commit, so before anything leaves. So the mark may lag by
what a kill or a power failure cut off, and is never ahead of the ledger it belongs to: a ledger that has come less far
than its mark is an older copy. The mark is not synced with each commit: it costs one small write.

It also knows the write-ahead log, and how far the file itself had come when that log began. SQLite begins a log only
when all of the one before is in the file and synced, so the file never comes less far while that log lies beside it,
whatever is killed: one that has is another file, and SQLite would lay the log over it. Of a log that the mark does not
know (after a power failure it may be an older mark) nothing is said: a ledger that is whole is never refused.
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
    """Which ledger, which of its lives, and how many commits gateways made in it.

    `log`: the log beside it (`log_beside`), empty where nothing is known of it. `base`: what incarnation and commits
    the file itself had come to when that log began.
    """

    ledger: str
    incarnation: int
    commits: int
    log: str = field(default="", compare=False)
    base: tuple[int, int] = field(default=(0, 0), compare=False)

    @property
    def come(self) -> tuple[int, int]:
        """How far: marks of one ledger are ordered by it."""
        return self.incarnation, self.commits

    def is_ahead_of(self, other: Mark) -> bool:
        """Whether the other mark, of the same ledger, is of an earlier commit or incarnation."""
        return self.come > other.come


def path_of(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + SUFFIX)


def read(ledger: Path) -> Mark | None:
    """The newest mark of a ledger; None: there is none that can be read."""
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
    """The mark of an open ledger. Raises OSError where it cannot be made; later failures leave an older mark."""

    def __init__(self, ledger: Path, mark: Mark) -> None:
        """Begin with this mark, whatever stood there."""
        path = path_of(ledger)
        self._ledger = ledger
        self._mark = mark
        self._whole: tuple[int, int] | None = None  # what the file has come to, and the next commit may begin a log
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(self._file, _slot(mark) * 2, 0)
        os.fsync(self._file)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def note(self, commits: int, incarnation: int) -> None:
        """The ledger has come so far."""
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
        """All of the log is in the ledger's file, and synced there."""
        self._whole = self._mark.come

    def close(self) -> None:
        try:
            os.fsync(self._file)
        except OSError:
            pass
        os.close(self._file)
