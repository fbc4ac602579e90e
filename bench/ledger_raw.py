"""What the disk itself can do: the reference that ledger numbers are divided by, measured in the same run.

A durable commit cannot be faster than one write and one fdatasync. Appending makes the file grow, and the file
system commits its own journal for that; overwriting does not, and is what a recycled write-ahead log costs.

    python -m bench.ledger_raw [FOLDER]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

SIZE = 12 * 1024  # bytes: about what one message's transaction writes to the log
SECONDS = 1.0


def append_per_second(folder: Path, size: int = SIZE, seconds: float = SECONDS) -> float:
    """Appends of `size` bytes, each followed by fdatasync, per second."""
    return _per_second(folder, size, seconds, overwrite=False)


def overwrite_per_second(folder: Path, size: int = SIZE, seconds: float = SECONDS) -> float:
    """Overwrites of `size` bytes inside a file of fixed length, each followed by fdatasync, per second."""
    return _per_second(folder, size, seconds, overwrite=True)


def _per_second(folder: Path, size: int, seconds: float, *, overwrite: bool) -> float:
    sync = getattr(os, "fdatasync", os.fsync)
    data = os.urandom(size)
    path = folder / "raw"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        slots = 256 if overwrite else 1 << 40
        if overwrite:
            os.pwrite(file, bytes(size * slots), 0)
            os.fsync(file)
        count, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            os.pwrite(file, data, size * (count % slots))
            sync(file)
            count += 1
        return count / spent
    finally:
        os.close(file)
        path.unlink()


def main() -> None:
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        print(f"append    {append_per_second(Path(folder)):8.0f}/s")
        print(f"overwrite {overwrite_per_second(Path(folder)):8.0f}/s")


if __name__ == "__main__":
    main()
