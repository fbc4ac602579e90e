"""The content of stored files in the ledger's database, so that any machine's gateway has it.

The content goes in and out in pieces (`semel.ledger.file_pieces`), a few in each transaction: a slow platform holds no
connection, and no whole file is in memory. What has a size that is not known yet is written to a draft on this machine
first; what is read is copied to a temporary file, because agents, platforms and browsers read as slowly as they like.

A ledger whose files lay in the folder until now keeps them readable there. `take_in` moves them into the database, one
by one; a kill leaves each in at least one of the two places.
"""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

import structlog

from semel.gateway.files import (
    CHUNK_BYTES,
    DRAFT_PREFIX,
    BlobDraft,
    StoredFiles,
    StoreFailed,
    blob_id,
    blob_path,
    make_digest,
    open_blob,
    store_errors,
)
from semel.ledger import file_objects, file_pieces
from semel.ledger.storage.store import LedgerStore

log = structlog.get_logger("semel.files")


class DatabaseFiles(StoredFiles):
    """Blobs in the ledger's database; in the folder, what was stored before they were."""

    rows_per_step = 1  # the content goes with the row: up to some hundred pieces

    def __init__(self, folder: Path, store: LedgerStore) -> None:
        super().__init__(folder)
        self._store = store

    def start_draft(self) -> BlobDraft:
        return BlobDraft(self.folder, synced=False)

    def store_draft(self, draft: BlobDraft, name: str, mime: str) -> None:
        with store_errors(self.folder), draft.path.open("rb") as source:
            self._write(draft.id, draft.size, name, mime, source)

    def store_bytes(self, content: bytes, name: str, mime: str) -> None:
        self._write(blob_id(content), len(content), name, mime, io.BytesIO(content))

    def _write(self, id: str, size: int, name: str, mime: str, source: BinaryIO) -> None:
        steps = file_pieces.split_content(source, size)
        is_whole = self._store.write_sync(file_pieces.keep_file, id, size, name, mime, next(steps))
        if not is_whole:
            self._add(id, steps, file_pieces.PIECES_PER_STEP)

    def _add(self, id: str, steps: Iterator[list[bytes]], first: int) -> None:
        """Write pieces, of which the first has the number `first`. Raises StoreFailed, LedgerError."""
        try:
            for step in steps:
                self._store.write_sync(file_pieces.add_pieces, id, first, step)
                first += len(step)
        except file_pieces.FileForgotten:
            raise StoreFailed("the file was removed while it was being stored; send it again") from None

    # ---------------------------------------------------------------- reading

    def open(self, id: str) -> BinaryIO:
        path = self._copy(id)
        try:
            return path.open("rb")
        finally:
            path.unlink()

    @contextmanager
    def lend(self, id: str) -> Iterator[Path]:
        path = self._copy(id)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _copy(self, id: str) -> Path:
        """Copy a blob to a new file on this machine, which the caller removes. Raises StoreFailed, LedgerError."""
        blob_path(self.folder, id)  # refuses what is no id
        size = self._store.read_sync(file_pieces.find_size, id)
        if size is None:
            try:
                source = open_blob(self.folder, id)  # not taken in yet
            except StoreFailed:
                size = self._store.read_sync(file_pieces.find_size, id)  # or just now
                if size is None:
                    raise self._explain_missing(id) from None
            else:
                with source:
                    return self._copy_out(check_digest(id, iter(partial(source.read, CHUNK_BYTES), b"")))
        return self._copy_out(check_digest(id, self._read(id, size)))

    def _explain_missing(self, id: str) -> StoreFailed:
        if self._store.read_sync(file_objects.find_copy, id) is not None:
            return StoreFailed(f"the content of the stored file {id} is in object storage: let [files] url name it")
        return StoreFailed(f"the content of the stored file {id} is not in the database")

    def _read(self, id: str, size: int) -> Iterator[bytes]:
        for first in range(0, file_pieces.count_pieces(size), file_pieces.PIECES_PER_STEP):
            yield from self._store.read_sync(file_pieces.read_pieces, id, first)

    def _copy_out(self, content: Iterator[bytes]) -> Path:
        """Write content to a new file on this machine. If this process is killed, the next start removes it."""
        path = self.folder / f"{DRAFT_PREFIX}{secrets.token_hex(8)}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as copy:
                copy.writelines(content)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise StoreFailed(f"{self.folder} cannot be written: {error.strerror}") from error
            raise
        return path

    def remove_objects(self, ids: Sequence[str]) -> None:
        if self._store.read_sync(file_objects.has_objects, ids):
            raise StoreFailed("it is in object storage: let [files] url name that")

    # ---------------------------------------------------------------- the folder of before

    def list_lacking(self, after: str = "") -> list[str]:
        return self._store.read_sync(file_pieces.list_lacking, after)

    def take_in(self, id: str) -> bool:
        try:
            with open_blob(self.folder, id) as source:
                digest = make_digest()
                while data := source.read(CHUNK_BYTES):
                    digest.update(data)
                if digest.hexdigest() != id:
                    return False
                size = source.tell()
                source.seek(0)
                self._add(id, file_pieces.split_content(source, size), 0)
            self.remove((id,))
        except (StoreFailed, OSError) as error:
            log.debug("a file is not moved into the database", file=id, why=str(error))
            return False
        return True


def check_digest(id: str, content: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a blob's content. Raises StoreFailed at its end if it is not what its id says."""
    digest = make_digest()
    for piece in content:
        digest.update(piece)
        yield piece
    if digest.hexdigest() != id:
        raise StoreFailed(f"the content of the stored file {id} is damaged or was removed")
