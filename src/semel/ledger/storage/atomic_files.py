"""Files beside the ledger that survive a crash."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a file that only its owner can read. After a crash, the file is complete or absent."""
    draft = name_draft(path)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def name_draft(path: Path) -> Path:
    """Return the name under which a file is written before it gets its own."""
    return path.with_name(f".{path.name}.new")


def sync_folder(folder: Path) -> None:
    """Sync a folder to the disk, so that the names of new and renamed files in it survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
