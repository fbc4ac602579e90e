"""Measure the disk space that the ledger and its files use, and the free space."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from semel.ledger.storage.store import LedgerSize, LedgerStore
from semel.text.json_types import Json
from semel.text.write_errors import advise_on_write_error

MIN_FREE_BYTES = 100_000_000
"""Below this much free space, the ledger may soon take no more writes."""
LOW_FREE_BYTES = 1_000_000_000
"""Below this much free space, people are warned."""

GROWTH_BYTES = 8_000_000
"""By how much a file beside the ledger has to be able to grow. The largest message, 1 MiB, needs about half of it."""


@dataclass(frozen=True)
class DiskUse:
    """Sizes in bytes.

    `ledger`: the ledger, with SQLite's write-ahead log. `files`: the stored files. `free`: space for this user.
    """

    free: int
    ledger: int
    files: int

    def json(self) -> Json:
        return {"free": self.free, "ledger": self.ledger, "files": self.files}


def measure_disk(ledger: Path | None, size: LedgerSize, data_dir: Path) -> DiskUse:
    """Measure the stored files, and the free space of the ledger's file system; of `data_dir` if it is in a database.

    `ledger`: its file. `size`: of the ledger. A missing file counts as 0.
    """
    place = data_dir if ledger is None else ledger.parent
    folder = next(path for path in (place, *place.parents) if path.exists())
    return DiskUse(shutil.disk_usage(folder).free, size.ledger, size.files + _folder_size(data_dir / "blobs"))


def measure_store(store: LedgerStore, data_dir: Path) -> DiskUse:
    """Do the same for an open ledger."""
    return measure_disk(store.file, store.measure(), data_dir)


def find_growth_problem(ledger: Path) -> str | None:
    """Return why the files of the ledger cannot grow by GROWTH_BYTES, and what to do; `None` if they can.

    A small write may still succeed on a full disk, inside the existing files. So GROWTH_BYTES are written to a
    temporary file, which shows a full disk or quota and rarely reaches the disk. The process may also have a limit on
    the size of one file (RLIMIT_FSIZE); the ledger's largest file is compared with that limit.
    """
    largest = max(_file_size(ledger), _file_size(Path(f"{ledger}-wal")))
    max_size, size = resource.getrlimit(resource.RLIMIT_FSIZE)[0], largest
    if max_size != resource.RLIM_INFINITY and size + GROWTH_BYTES > max_size:
        problem = f"a file of the ledger has {format_bytes(size)}, and files may have {format_bytes(max_size)} here"
        return f"{problem}. {advise_on_write_error(OSError(errno.EFBIG, ''))}"
    try:
        with tempfile.TemporaryFile(dir=ledger.parent, buffering=0) as probe:
            unwritten = GROWTH_BYTES
            while unwritten > 0:
                unwritten -= probe.write(bytes(min(unwritten, 1_000_000)))
    except OSError as error:
        problem = f"less than {format_bytes(GROWTH_BYTES)} can be written: {error.strerror}"
        return f"{problem}. {advise_on_write_error(error)}".strip()
    return None


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
