"""A data directory with a ledger and files in it, and backups of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outbox_desk import say

from semel.ledger.backup.backups import Backup, make_backup
from semel.ledger.sqlite.store import Store, now_ms
from semel.ledger.storage.sql import Tx


@dataclass
class Place:
    """`data` is the data directory, `folder` the folder of its backups."""

    data: Path
    folder: Path

    @property
    def ledger(self) -> Path:
        return self.data / "ledger.db"

    def back_up(self, **options: Any) -> Backup:
        return make_backup(self.ledger, self.data, self.folder, semel="test", clock=now_ms, **options)


def make_place(root: Path, *, messages: int = 3, files: int = 2) -> Place:
    """A ledger with so many messages that wait for a channel, and so many files that an entry holds."""
    place = Place(root / "data", root / "backups")
    (place.data / "blobs").mkdir(parents=True, mode=0o700)
    with Store.open_sync(place.ledger) as store:
        for n in range(messages):
            store.write_sync(say, "hook:room", [f"message {n}"])
        for n in range(files):
            add_file(place, store, f"content {n}".encode())
    return place


def add_file(place: Place, store: Store, content: bytes) -> str:
    """One more file, as the gateway stores it."""
    id = hashlib.blake2b(content, digest_size=32).hexdigest()
    (place.data / "blobs" / id).write_bytes(content)

    def note(tx: Tx) -> None:
        tx.run("blob_keep", id=id, size=len(content), name="a.txt", mime="text/plain", at=tx.now)

    store.write_sync(note)
    return id
