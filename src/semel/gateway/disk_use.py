"""Measure the disk space that the ledger and its files use, and the free space."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from semel.text.json_types import Json

MIN_FREE_BYTES = 100_000_000
"""Below this much free space, the ledger may soon take no more writes."""
LOW_FREE_BYTES = 1_000_000_000
"""Below this much free space, people are warned."""


@dataclass(frozen=True)
class DiskUse:
    """Sizes in bytes.

    `ledger`: the ledger with its write-ahead log. `files`: the stored files. `free`: space for this user.
    """

    free: int
    ledger: int
    files: int

    def json(self) -> Json:
        return {"free": self.free, "ledger": self.ledger, "files": self.files}


def measure_disk(ledger: Path, blobs: Path) -> DiskUse:
    """Measure the ledger, its folder of files, and the free space of its file system. A missing file counts as 0."""
    folder = next(path for path in (ledger.parent, *ledger.parent.parents) if path.exists())
    return DiskUse(shutil.disk_usage(folder).free, measure_ledger(ledger), _folder_size(blobs))


def measure_ledger(ledger: Path) -> int:
    """Return the size of the ledger with its write-ahead log, in bytes."""
    return sum(_file_size(path) for path in (ledger, Path(f"{ledger}-wal")))


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _folder_size(folder: Path) -> int:
    try:
        with os.scandir(folder) as files:
            return sum(_file_size(Path(file.path)) for file in files)
    except OSError:
        return 0


def format_bytes(number: int) -> str:
    """Return a size for people, such as "1.2 MB" or "340 kB"."""
    size, units = float(number), ("B", "kB", "MB", "GB")
    for unit in units:
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
