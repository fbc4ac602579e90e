"""The content of stored files in object storage, where the ledger is in a database (`[files]` url).

A file is cut into objects of OBJECT_BYTES, so that no whole file is in memory and every request is short. What is in
the database or in the folder from before stays readable there, and `take_in` moves it. The ledger knows which objects
there are (`semel.ledger.file_objects`); nobody lists the bucket but `semel doctor`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from semel.gateway.bucket import Bucket, ObjectMissing, StorageUnavailable
from semel.gateway.database_files import DatabaseFiles, check_digest
from semel.gateway.files import FolderFiles, StoredFiles, StoreFailed
from semel.gateway.settings.files import FileSettings
from semel.ledger import file_objects
from semel.ledger.copy_files import ObjectsUnreadable, ReadObject
from semel.ledger.file_objects import StoredCopy
from semel.ledger.storage.store import LedgerStore

OBJECT_BYTES = 4 << 20


def name_objects(copy: StoredCopy) -> list[str]:
    """Return the names of the objects that hold a file's content, in order. An empty file has one, which is empty."""
    count = max(1, -(-copy.size // OBJECT_BYTES))
    return [f"{copy.id}-{-copy.n:016x}/{part}" for part in range(count)]


def make_reader(settings: FileSettings) -> ReadObject:
    """Return what reads the content of files from object storage, for a copy of the ledger."""
    bucket = Bucket(settings)

    def read(copy: StoredCopy) -> Iterator[bytes]:
        try:
            yield from map(bucket.get, name_objects(copy))
        except ObjectMissing:
            return  # what came is not the file, as its digest shows
        except StorageUnavailable as error:
            raise ObjectsUnreadable(str(error)) from None

    return read


def make_stored_files(store: LedgerStore, folder: Path, settings: FileSettings) -> StoredFiles:
    """Return where the content of a ledger's files is. `folder`: the folder of stored files on this machine."""
    if not store.holds_files:
        return FolderFiles(folder)
    return ObjectFiles(folder, store, Bucket(settings)) if settings.url else DatabaseFiles(folder, store)


class ObjectFiles(DatabaseFiles):
    """Blobs in a bucket; in the database or the folder, what was stored before they were."""

    rows_per_step = 20

    def __init__(self, folder: Path, store: LedgerStore, bucket: Bucket) -> None:
        super().__init__(folder, store)
        self.bucket = bucket

    def _write(self, id: str, size: int, name: str, mime: str, source: BinaryIO) -> None:
        copy = StoredCopy(id, file_objects.draw_copy_number(), size)
        if self._store.write_sync(file_objects.keep_file, id, size, name, mime, copy.n):
            self._put(copy, source)

    def _put(self, copy: StoredCopy, source: BinaryIO) -> None:
        """Store a copy that the ledger expects. Raises StoreFailed, LedgerError: what is there is removed later."""
        names = name_objects(copy)
        for name in names:
            self.bucket.put(name, source.read(OBJECT_BYTES))
        if not self._store.write_sync(file_objects.record_stored, copy.id, copy.n):
            self.bucket.remove(names)
            raise StoreFailed("the file was removed while it was being stored; send it again")

    def _copy(self, id: str) -> Path:
        if (copy := self._store.read_sync(file_objects.find_copy, id)) is None:
            try:
                return super()._copy(id)
            except StoreFailed:
                copy = self._store.read_sync(file_objects.find_copy, id)  # or moved just now
                if copy is None:
                    raise
        return self._copy_out(check_digest(id, map(self.bucket.get, name_objects(copy))))

    def list_lacking(self, after: str = "") -> list[str]:
        """As `StoredFiles` says."""
        return self._store.read_sync(file_objects.list_outside, after)

    def take_in(self, id: str) -> bool:
        """As `StoredFiles` says."""
        try:
            path = super()._copy(id)
        except StoreFailed:
            return self._store.read_sync(file_objects.find_copy, id) is not None
        try:
            copy = StoredCopy(id, file_objects.draw_copy_number(), path.stat().st_size)
            if self._store.write_sync(file_objects.add_copy, id, copy.n):
                with path.open("rb") as source:
                    self._put(copy, source)
        finally:
            path.unlink(missing_ok=True)
        self.remove((id,))
        return True

    def remove_objects(self, ids: Sequence[str]) -> None:
        """As `StoredFiles` says."""
        going = self._store.write_sync(file_objects.begin_removal, ids)
        for copy in going:
            self.bucket.remove(name_objects(copy))
        if going:
            self._store.write_sync(file_objects.finish_removal, going)
