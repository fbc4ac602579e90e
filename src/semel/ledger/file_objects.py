"""Which objects in object storage have the content of stored files (docs/decisions/files-in-object-storage.md).

A copy of a file is a row of `blob_piece` with a negative number, and one or more objects. The number is drawn at
random, and the objects' names have it: no name is ever used twice, so a late request to store or to remove an object
cannot harm another one. The row's data says what becomes of the copy:

    coming -> stored -> going -> (no row)
    coming -----------> going

The row is there before the objects, and until after them: an object without a row is possible only if a gateway was
frozen while it stored one. A file's row is not removed while it has such rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from semel.ledger.storage.rows import FileObjectRow
from semel.ledger.storage.sql import Tx

COMING, STORED, GOING = b"coming", b"stored", b"going"
PAGE = 1000


@dataclass(frozen=True)
class StoredCopy:
    """One copy of a file's content in object storage, as one or more objects.

    `id`: the file's. `n`: the copy's random number, below 0. `size`: of the file, in bytes.
    """

    id: str
    n: int
    size: int


def draw_copy_number() -> int:
    """Return a number for a new copy."""
    return -1 - secrets.randbits(62)


def keep_file(tx: Tx, id: str, size: int, name: str, mime: str, n: int) -> bool:
    """Record a file that no message claims yet. Return whether its content is to be stored, as the copy `n`."""
    tx.run("blob_keep", id=id, size=size, name=name, mime=mime, at=tx.now)
    return add_copy(tx, id, n)


def add_copy(tx: Tx, id: str, n: int) -> bool:
    """Record that the copy `n` is about to be stored. Return False if the file has one already, or is not known."""
    tx.lock("blob_lock", id=id)
    if not tx.exists("blob_get", id=id) or find_copy(tx, id) is not None:
        return False
    tx.run("object_add", id=id, n=n, state=COMING)
    return True


def record_stored(tx: Tx, id: str, n: int) -> bool:
    """Record that a copy is whole, and remove the content from the ledger if it is there, too.

    Return False if the file was removed while it was being stored.
    """
    if not tx.count_changed("object_keep", id=id, n=n, coming=COMING, stored=STORED):
        return False
    tx.run("blob_pieces_drop", id=id)
    return True


def find_copy(tx: Tx, id: str) -> StoredCopy | None:
    """Return the stored copy of a file's content; None if there is none."""
    found = tx.pairs(int, int, "object_stored", id=id, stored=STORED)
    return StoredCopy(id, *found[0]) if found else None


def begin_removal(tx: Tx, ids: Sequence[str]) -> list[StoredCopy]:
    """Let nobody rely on the objects of these files any more, as far as no message needs them. Return those copies."""
    going: list[StoredCopy] = []
    for id in sorted(ids):
        tx.lock("blob_lock", id=id)
        copies = [StoredCopy(id, n, size) for n, size in tx.pairs(int, int, "objects_of_gone", id=id)]
        if copies:
            tx.run("objects_leave", id=id, going=GOING)
        going += copies
    return going


def finish_removal(tx: Tx, copies: Sequence[StoredCopy]) -> None:
    """Record that these copies are not in object storage any more."""
    for copy in copies:
        tx.run("object_drop", id=copy.id, n=copy.n, going=GOING)


def has_objects(tx: Tx, ids: Sequence[str]) -> bool:
    """Return whether any of these files has an object."""
    return any(tx.exists("object_any", id=id) for id in ids)


def list_outside(tx: Tx, after: str = "") -> list[str]:
    """Return a page of the ids of files that a message needs and that have no object, ordered."""
    return tx.values(str, "blobs_outside", after=after, stored=STORED, limit=PAGE)


def list_files(tx: Tx, after: str = "") -> list[str]:
    """Return a page of the ids of all stored files, ordered."""
    return tx.values(str, "blob_ids", after=after, limit=PAGE)


def list_objects(tx: Tx, after: str, last: str) -> list[FileObjectRow]:
    """Return the objects of the files above `after` up to `last`."""
    return tx.all(FileObjectRow, "objects_between", after=after, last=last, stored=STORED)


def map_copies(tx: Tx) -> dict[str, StoredCopy]:
    """Return {id: copy} for all files that a message needs and whose content is in object storage."""
    copies: dict[str, StoredCopy] = {}
    after = ""
    while ids := list_files(tx, after):
        rows = list_objects(tx, after, ids[-1])
        copies |= {row.blob: StoredCopy(row.blob, row.n, row.size) for row in rows if row.is_needed}
        after = ids[-1]
    return copies
