"""Copy the files of messages along with a ledger (`semel.ledger.copy_ledger`).

A ledger in a database holds the content of its files; one that is a file has them in a folder beside it. What is
written is read back, and its digest compared with the file's id. What is in object storage is read from there: the copy
has it in itself or beside it, and the objects stay for the old ledger.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from semel.ledger import file_objects
from semel.ledger.backup.backups import PAGE, is_stored
from semel.ledger.file_objects import StoredCopy
from semel.ledger.file_pieces import split_content
from semel.ledger.storage.atomic_files import sync_folder
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.transfer import CopySource, CopyTarget, LedgerReader

DRAFT_PREFIX = ".draft-"


@dataclass(frozen=True)
class FileCopy:
    """What became of the files of messages. `needed`: by the ledger. `missing`: the ids that the source lacks."""

    needed: int
    copied: int
    missing: tuple[str, ...]


class ContentDiffers(Exception):
    """The target is not what the source is. The message says where."""


class _FileMissing(Exception):
    """The source does not have the file, or not as its id says."""


ReadObject = Callable[[StoredCopy], Iterator[bytes]]
"""Yields the content of a file that is in object storage; less of it if it is missing. Raises ObjectsUnreadable."""


class ObjectsUnreadable(Exception):
    """Files are in object storage, and cannot be read there. The message says why."""


def check_objects(old: CopySource, read_object: ReadObject | None) -> None:
    """Raise ObjectsUnreadable if files are in object storage, and nobody said where that is."""
    if read_object is None and (copies := old.run(file_objects.map_copies)):
        raise ObjectsUnreadable(f"{len(copies)} files are in object storage: let [files] url of semel.toml name it")


def copy_files(
    old: CopySource, new: CopyTarget, source: Path, target: Path, read_object: ReadObject | None = None
) -> FileCopy:
    """Copy the files that the ledger needs, unless the target has them. `source`, `target`: the folders of both.

    Raises ContentDiffers, ObjectsUnreadable.
    """
    copies = {} if read_object is None else old.run(file_objects.map_copies)
    needed, copied, missing = 0, 0, list[str]()
    if not new.holds_files:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for id, size in _list_files(old):
        needed += 1
        if not new.holds_files and is_stored(target, id, size):
            continue
        try:
            if read_object is not None and id in copies:
                content = read_object(copies[id])
            else:
                content = _read(old, source, id, size)
            _copy_file(new, target, id, size, content)
            copied += 1
        except _FileMissing:
            missing.append(id)
    if not new.holds_files:
        sync_folder(target)
    return FileCopy(needed, copied, tuple(missing))


def _list_files(old: LedgerReader) -> list[tuple[str, int]]:
    def read(tx: Tx) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        while rows := tx.pairs(str, int, "blobs_in_use", after=found[-1][0] if found else "", limit=PAGE):
            found += rows
        return found

    return old.run(read)


def _copy_file(new: CopyTarget, target: Path, id: str, size: int, content: Iterator[bytes]) -> None:
    content = _check_digest(id, content)
    if new.holds_files:
        new.write_file(id, content)
    else:
        _write_to_folder(target, id, content)
    try:
        for _ in _check_digest(id, _read(new, target, id, size)):
            pass
    except _FileMissing:
        raise ContentDiffers(f"the file {id} became another one") from None


def _read(end: LedgerReader, folder: Path, id: str, size: int) -> Iterator[bytes]:
    """Yield the pieces of a file, from the ledger or, if it does not hold the file, from the folder."""
    if end.has_file(id, size):
        yield from end.read_file(id)
        return
    try:
        descriptor = os.open(folder / id, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise _FileMissing from None
    with os.fdopen(descriptor, "rb") as file:
        for pieces in split_content(file, size):
            yield from pieces


def _check_digest(id: str, content: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content. Raises _FileMissing at its end if its digest is not `id`."""
    digest = blake2b(digest_size=32)
    for piece in content:
        digest.update(piece)
        yield piece
    if digest.hexdigest() != id:
        raise _FileMissing


def _write_to_folder(folder: Path, id: str, content: Iterable[bytes]) -> None:
    """Write a file, completely or not at all. It is durable once the folder is synced."""
    draft = folder / f"{DRAFT_PREFIX}{id}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(folder / id)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
