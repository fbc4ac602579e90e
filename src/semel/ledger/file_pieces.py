"""The content of stored files as rows, where the ledger is in a database (docs/decisions/files-in-the-database.md).

A file's row is written first, as one that no message claims yet (`blob.kept`), then its pieces in order, a few in each
transaction. A crash in between leaves a row that the next start releases; its pieces go with it, by the reference.
There is never a piece without a row. A file's id is the digest of its content, so two that store the same content at
the same time write equal pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import BinaryIO

from semel.ledger.file_objects import STORED
from semel.ledger.storage.rows import BlobRow
from semel.ledger.storage.sql import Tx

PIECE_BYTES = 256 << 10
PIECES_PER_STEP = 4  # pieces that one transaction writes or reads, so that neither memory nor others wait long
LACKING_PAGE = 1000


class FileForgotten(Exception):
    """The file's row was removed while its content was being stored: nobody claimed it."""


def keep_file(tx: Tx, id: str, size: int, name: str, mime: str, pieces: Sequence[bytes]) -> bool:
    """Record a file that no message claims yet, with its first pieces. Return whether its content is whole by now.

    `size`: in bytes. `pieces`: at most PIECES_PER_STEP of them.
    """
    tx.run("blob_keep", id=id, size=size, name=name, mime=mime, at=tx.now)
    if find_size(tx, id) is not None:
        return True
    _add(tx, id, 0, pieces)
    return count_pieces(size) <= len(pieces)


def add_pieces(tx: Tx, id: str, first: int, pieces: Sequence[bytes]) -> None:
    """Write pieces of a file's content, of which the first has the number `first`. Raises FileForgotten."""
    if not tx.exists("blob_get", id=id):
        raise FileForgotten(id)
    _add(tx, id, first, pieces)


def _add(tx: Tx, id: str, first: int, pieces: Sequence[bytes]) -> None:
    for n, piece in enumerate(pieces, first):
        tx.run("blob_piece_add", id=id, n=n, content=piece)


def find_file(tx: Tx, id: str) -> BlobRow | None:
    """Return a file's row; None if there is none."""
    return tx.one(BlobRow, "blob_get", id=id)


def find_size(tx: Tx, id: str) -> int | None:
    """Return the size in bytes of a file whose content is whole; None if it is not, or not here."""
    return tx.value(int, "blob_whole", id=id, piece=PIECE_BYTES)


def read_pieces(tx: Tx, id: str, first: int) -> list[bytes]:
    """Return at most PIECES_PER_STEP pieces of a file's content, from the number `first` on."""
    return tx.values(bytes, "blob_pieces", id=id, first=first, end=first + PIECES_PER_STEP)


def list_lacking(tx: Tx, after: str = "") -> list[str]:
    """Return a page of the ids of files that a message needs and whose content is not whole here, ordered.

    Those in object storage are left out.
    """
    return tx.values(str, "blobs_lacking", after=after, piece=PIECE_BYTES, stored=STORED, limit=LACKING_PAGE)


def count_pieces(size: int) -> int:
    """Return the number of pieces of a file with `size` bytes. An empty file has one, which is empty."""
    return max(1, -(-size // PIECE_BYTES))


def split_content(source: BinaryIO, size: int) -> Iterator[list[bytes]]:
    """Yield the pieces of a file of `size` bytes, PIECES_PER_STEP at a time; all are full but the last."""
    pieces = (source.read(PIECE_BYTES) for _ in range(count_pieces(size)))
    while step := list(islice(pieces, PIECES_PER_STEP)):
        yield step
