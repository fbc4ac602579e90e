"""The mark file beside the ledger: it shows whether the ledger file is an older copy (Law 14).

`<ledger>.mark` has two slots, written in turn, each with a checksum. It records how many commits the ledger has seen. A
commit is durable before its mark is written, and the mark is written before any caller learns of the commit, so before
anything is sent. A kill or power failure can therefore leave the mark behind its ledger, never ahead of it. So a ledger
that is behind its mark is an older copy. The mark costs one small write per commit; it is not synced each time.

The mark also identifies the write-ahead log, and records the position of the database file when that log began. SQLite
begins a new log only when the previous log is completely in the database file and synced. So while a log lies beside
the database file, the file cannot be behind the position at which that log began. If it is behind, the file was
replaced, and SQLite would apply the log to the wrong database. If the mark does not know the log (after a power failure
the mark may be older), nothing is concluded: an intact ledger is never refused.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from semel.ledger.storage.atomic_files import sync_folder

MARK_SUFFIX = ".mark"
SLOT_BYTES = 512
_LOG_HEADER_BYTES = 32
_LOG_SALTS = slice(16, 24)  # https://sqlite.org/fileformat2.html, "WAL Header Format"


@dataclass(frozen=True)
class LedgerMark:
    """The position of a ledger: its name, its incarnation (how often it was restored) and its number of commits.

    `log` identifies the write-ahead log beside the ledger (`identify_log`); "" if unknown. `base`: the (incarnation,
    commits) of the database file when that log began.
    """

    ledger: str
    incarnation: int
    commits: int
    log: str = field(default="", compare=False)
    base: tuple[int, int] = field(default=(0, 0), compare=False)

    @property
    def position(self) -> tuple[int, int]:
        """The pair (incarnation, commits), which orders the marks of one ledger."""
        return self.incarnation, self.commits

    def is_ahead_of(self, other: LedgerMark) -> bool:
        """Return whether this mark has a later incarnation or commit than `other`, a mark of the same ledger."""
        return self.position > other.position


def is_older_copy(ledger_mark: LedgerMark, file_mark: LedgerMark | None) -> bool:
    """Return whether a ledger is an older copy that somebody put here: it is behind its mark file, or has none.

    `ledger_mark`: the ledger's position. `file_mark`: what the mark file says, which must be read before the ledger if
    a gateway may run. A ledger without commits needs no mark file.
    """
    if file_mark is None or file_mark.ledger != ledger_mark.ledger:
        return ledger_mark.commits > 0
    return file_mark.is_ahead_of(ledger_mark)


def mark_path(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + MARK_SUFFIX)


def identify_log(ledger: Path) -> str:
    """Return the identity of the write-ahead log beside the ledger; "" if there is no log.

    The identity is the salts in the log's header. SQLite chooses new salts when it begins a new log.
    """
    try:
        with ledger.with_name(f"{ledger.name}-wal").open("rb") as file:
            header = file.read(_LOG_HEADER_BYTES)
    except OSError:
        return ""
    return header[_LOG_SALTS].hex() if len(header) == _LOG_HEADER_BYTES else ""


def read_mark(ledger: Path) -> LedgerMark | None:
    """Return the newest readable mark of a ledger; None if there is none."""
    try:
        content = mark_path(ledger).read_bytes()
    except OSError:
        return None
    slots = [_read_slot(content[at : at + SLOT_BYTES]) for at in (0, SLOT_BYTES)]
    marks = [mark for mark in slots if mark is not None]
    return max(marks, key=lambda one: one.position, default=None)


def _read_slot(slot: bytes) -> LedgerMark | None:
    text, _, checksum = slot.rstrip(b"\0").rpartition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        fields = json.loads(text)
        incarnation, commits = fields.get("base", (0, 0))
        log, base = str(fields.get("log", "")), (int(incarnation), int(commits))
        return LedgerMark(str(fields["ledger"]), int(fields["incarnation"]), int(fields["commits"]), log, base)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _encode_slot(mark: LedgerMark) -> bytes:
    text = msgspec.json.encode(mark)
    return (text + b" %08x" % zlib.crc32(text)).ljust(SLOT_BYTES, b"\0")


def _find_slot(commits: int) -> int:
    """Return the offset of the slot in which a number of commits is recorded."""
    return commits % 2 * SLOT_BYTES


class MarkFile:
    """The writer of an open ledger's mark file, by which an older copy of the ledger is recognised (Law 14).

    The constructor raises OSError if it cannot write the file. If a later write fails, the file keeps an older mark.
    """

    def __init__(self, ledger: Path, mark: LedgerMark) -> None:
        """Write `mark` into both slots and sync the file, replacing any earlier mark.

        The slot with the newest earlier mark is written last: a write that is torn leaves one of the two.
        """
        path = mark_path(ledger)
        self._ledger = ledger
        self._mark = mark
        self._whole_position: tuple[int, int] | None = None  # position at a full checkpoint; None after a commit
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for commits in (mark.commits + 1, mark.commits):
            os.pwrite(self._file, _encode_slot(mark), _find_slot(commits))
        os.fsync(self._file)
        sync_folder(path.parent)

    def record_commit(self, commits: int, incarnation: int) -> None:
        """Record the ledger's position after a commit: its number of commits and its incarnation."""
        self._mark = replace(self._mark, incarnation=incarnation, commits=commits)
        if self._whole_position is not None:
            log = identify_log(self._ledger)
            if log != self._mark.log:
                self._mark = replace(self._mark, log=log, base=self._whole_position)
            self._whole_position = None
        try:
            os.pwrite(self._file, _encode_slot(self._mark), _find_slot(commits))
        except OSError:
            pass  # an older mark stays: it can miss an older copy, but not report one wrongly

    def record_checkpoint(self) -> None:
        """Record that the database file now holds the whole log, and is synced."""
        self._whole_position = self._mark.position

    def close(self) -> None:
        try:
            os.fsync(self._file)
        except OSError:
            pass
        os.close(self._file)
