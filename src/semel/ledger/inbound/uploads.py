"""Uploaded files: each waits for the message that takes it, and goes if none does (Law 1).

A file's content is whole and durable before its upload is recorded. From then on the upload's row keeps the file, as an
entry does later. A message takes its files in the transaction that accepts it: all of them, or the message is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from semel.ledger.file_pieces import FileForgotten
from semel.ledger.inbound import hear
from semel.ledger.storage.rows import Row
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.text.json_types import Json
from semel.text.media_types import is_sound

EXPIRED_PER_STEP = 100


class TakeableFile(Row):
    """A file that a message may take. `size`: in bytes. `mime`: its media type."""

    id: str
    size: int
    name: str
    mime: str


@dataclass(frozen=True)
class AttachedFile:
    """A file that a message names. `name`: as the message calls it; None takes the name that it was uploaded with.

    `image_size`: {"width", "height"} of an image, in pixels, if they are known.
    """

    id: str
    name: str | None = None
    image_size: dict[str, int] = field(default_factory=dict)


class FileNotThere(Exception):
    """A message names a file that is not there: not uploaded, or expired. Nothing was accepted.

    `place`: which of its files, from 0.
    """

    def __init__(self, place: int, id: str) -> None:
        super().__init__(f"there is no file {id}")
        self.place = place
        self.id = id


class FilesTooLarge(Exception):
    """The files of a message are too large together. Nothing was accepted. `size`: in bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the files have {size} bytes together")
        self.size = size


def record_upload(tx: Tx, id: str, name: str, mime: str, life_ms: int) -> int:
    """Record that a stored file was uploaded. Return when it expires (ms). Raises FileForgotten."""
    if not tx.count_changed("blob_heard", id=id):
        raise FileForgotten(id)
    expires = tx.now + life_ms
    tx.run("upload_put", blob=id, name=name, mime=mime, expires=expires)
    return expires


def measure_waiting(tx: Tx) -> tuple[int, int]:
    """Return how many uploads wait for a message, and their size in bytes."""
    [(count, size)] = tx.pairs(int, int, "uploads_waiting", now=tx.now)
    return count, size


def drop_expired(tx: Tx) -> int:
    """Let go of some uploads that no message has taken in time. Return their number."""
    ids = tx.values(str, "uploads_expired", now=tx.now, limit=EXPIRED_PER_STEP)
    _drop_uploads(tx, ids)
    entries.let_go_of_files(tx, ids)
    return len(ids)


def hear_with_files(
    tx: Tx,
    event: hear.Event,
    targets: Sequence[hear.Addressee],
    attached: Sequence[AttachedFile],
    max_bytes: int,
    start: hear.IdleStart | None = None,
) -> hear.HeardOutcome:
    """Accept an event together with its files, as `hear.hear` does.

    `max_bytes`: the most that the files may have together. A repeat needs no files: it gets the first outcome, and what
    was uploaded for it again is let go. Raises FileNotThere, FilesTooLarge, SessionMissing.
    """
    ids = [file.id for file in attached]
    if event.key is not None and tx.exists("event_known", source=event.source, key=event.key):
        named: list[Json] = [{"id": file.id, "name": file.name} for file in attached]
        outcome = hear.hear(tx, _with_files(event, named), targets)
        if outcome.status == "duplicate":
            _drop_uploads(tx, ids)
            entries.let_go_of_files(tx, ids)
        return outcome
    found = _find_files(tx, attached)
    size = sum(file.size for file in found.values())
    if size > max_bytes:
        raise FilesTooLarge(size)
    outcome = hear.hear(tx, _with_files(event, _describe_files(event.text, attached, found)), targets, start=start)
    _drop_uploads(tx, ids)
    return outcome


def _with_files(event: hear.Event, files: Sequence[Json]) -> hear.Event:
    return replace(event, more={**(event.more or {}), "files": list(files)})


def _describe_files(text: str, attached: Sequence[AttachedFile], found: dict[str, TakeableFile]) -> list[Json]:
    """Return the files as the message's entry names them. A sound that comes without a word is a voice note."""
    files = [_describe(file, found[file.id]) for file in attached]
    if not text.strip() and len(files) == 1 and is_sound(files[0]["mime"]):
        files[0]["voice"] = True
    return files


def _describe(attached: AttachedFile, file: TakeableFile) -> Json:
    """Return a file as the message's entry names it."""
    row = {"id": file.id, "name": attached.name or file.name, "mime": file.mime, "size": file.size}
    return {**row, **attached.image_size}


def _find_files(tx: Tx, attached: Sequence[AttachedFile]) -> dict[str, TakeableFile]:
    """Return the files that a message names, by id. From now on, none of them is let go before this commits."""
    ids = [file.id for file in attached]
    found: dict[str, TakeableFile] = {}
    for id in sorted(set(ids)):  # in one order, so that two transactions never wait for each other
        tx.lock("blob_lock", id=id)
        row = tx.one(TakeableFile, "upload_find", id=id)
        if row is None:
            raise FileNotThere(ids.index(id), id)
        found[id] = row
    return found


def _drop_uploads(tx: Tx, ids: Sequence[str]) -> None:
    for id in sorted(set(ids)):
        tx.run("upload_drop", blob=id)
