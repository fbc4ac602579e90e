"""A mark beside the ledger: how far it has come, so that an older copy of the file is recognised (Law 14).

The file `<ledger>.mark` has two slots, written in turn, each with a check sum. A commit is durable before its mark is
written, and the mark is written before anybody hears of the commit, so before anything leaves. So the mark may lag by
what a kill or a power failure cut off, and is never ahead of the ledger it belongs to: a ledger that has come less far
than its mark is an older copy. The mark is not synced with each commit: it costs one small write.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

SUFFIX = ".mark"
SLOT_BYTES = 512


@dataclass(frozen=True)
class Mark:
    """Which ledger, which of its lives, and how many commits gateways made in it."""

    ledger: str
    incarnation: int
    commits: int

    def is_ahead_of(self, other: Mark) -> bool:
        """Whether the other mark, of the same ledger, is of an earlier commit or incarnation."""
        return (self.incarnation, self.commits) > (other.incarnation, other.commits)


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
    return max(found, key=lambda one: (one.incarnation, one.commits), default=None)


def _read_slot(slot: bytes) -> Mark | None:
    text, _, check = slot.rstrip(b"\0").rpartition(b" ")
    try:
        if int(check, 16) != zlib.crc32(text):
            return None
        told = json.loads(text)
        return Mark(str(told["ledger"]), int(told["incarnation"]), int(told["commits"]))
    except (ValueError, LookupError, TypeError):
        return None


def _slot(mark: Mark) -> bytes:
    text = json.dumps(asdict(mark)).encode()
    return (text + b" %08x" % zlib.crc32(text)).ljust(SLOT_BYTES, b"\0")


class MarkFile:
    """The mark of an open ledger. Raises OSError where it cannot be made; later failures leave an older mark."""

    def __init__(self, ledger: Path, mark: Mark) -> None:
        """Begin with this mark, whatever stood there."""
        path = path_of(ledger)
        self._mark = mark
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
        self._mark = Mark(self._mark.ledger, incarnation, commits)
        try:
            os.pwrite(self._file, _slot(self._mark), commits % 2 * SLOT_BYTES)
        except OSError:
            pass  # an older mark stays: less is recognised, and nothing is taken for what it is not

    def close(self) -> None:
        try:
            os.fsync(self._file)
        except OSError:
            pass
        os.close(self._file)
