"""Take in the files that a person uploads for a message (docs/api.md, "POST /v1/files").

A file is written to the disk as it comes, then stored under the digest of its content, then recorded as an upload. A
kill in between leaves a draft or a row that nobody claims, which the next start removes. An upload waits for its
message across restarts, up to UPLOAD_LIFE_S.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from semel.gateway import files
from semel.gateway.clock import Clock
from semel.gateway.errors import BadRequest, Conflict, GatewayUnavailable, NotFound
from semel.gateway.file_store import FileStore, HeldFiles, write_content
from semel.gateway.files import MAX_FILE_BYTES, BlobDraft, plain_name
from semel.gateway.image_size import HEAD_BYTES as IMAGE_HEAD_BYTES
from semel.gateway.image_size import describe_image_size
from semel.gateway.record import LedgerAccess
from semel.ledger.file_pieces import FileForgotten
from semel.ledger.inbound import uploads as rows
from semel.ledger.inbound.uploads import AttachedFile
from semel.ledger.storage.errors import LedgerError
from semel.text.json_types import Json
from semel.text.media_types import HEAD_BYTES, detect_media_type

log = structlog.get_logger("semel.files")

MAX_MESSAGE_FILES = 20
MAX_MESSAGE_FILE_BYTES = 100 << 20  # bytes of all files of a message
MAX_WAITING_FILES = 1000  # uploads that wait for their message
MAX_WAITING_BYTES = 2 << 30
UPLOAD_LIFE_S = 24 * 3600
SWEEP_INTERVAL_S = 600.0


@dataclass(frozen=True)
class StoredUpload:
    """An uploaded file. `size`: in bytes. `mime`: by its content. `expires`: in ms since 1970."""

    id: str
    name: str
    mime: str
    size: int
    expires: int


class Uploads:
    """Stores uploads, and removes those that no message takes. Run `run` as a task."""

    def __init__(self, record: LedgerAccess, store: FileStore, clock: Clock) -> None:
        self.record = record
        self.store = store
        self.clock = clock

    async def take_in(self, name: str, content: AsyncIterable[bytes]) -> StoredUpload:
        """Store a file durably and return it. The same content again is the same file, with a new name and life.

        Raises TooLarge if it has more than MAX_FILE_BYTES, Conflict if too much waits already, GatewayUnavailable and
        LedgerError if it cannot be stored. Then nothing is left of it.
        """
        await self._check_room()
        try:
            return await self._store(plain_name(name), content)
        except files.StoreFailed as error:
            raise GatewayUnavailable(str(error)) from None
        except FileForgotten:
            raise GatewayUnavailable("the file was removed while it was being stored; send it again") from None

    async def _check_room(self) -> None:
        count, size = await self.record.read(rows.measure_waiting)
        if count >= MAX_WAITING_FILES or size >= MAX_WAITING_BYTES:
            raise Conflict(
                f"{count:,} uploaded files with {size:,} bytes wait for a message already; send the messages, or wait "
                f"until the uploads expire, {UPLOAD_LIFE_S // 3600} hours after each"
            )

    async def _store(self, name: str, content: AsyncIterable[bytes]) -> StoredUpload:
        held = HeldFiles(self.record, self.store)
        draft = await asyncio.to_thread(self.store.content.start_draft)
        try:
            await write_content(draft, name, content, MAX_FILE_BYTES)
            id = await asyncio.to_thread(draft.finish)
            mime = detect_media_type(name, await asyncio.to_thread(_read_head, draft))
            await held.hold(id, draft.size, name, mime, partial(self.store.content.store_draft, draft, name, mime))
            expires = await self.record.write(rows.record_upload, id, name, mime, UPLOAD_LIFE_S * 1000)
        finally:
            draft.discard()
            await held.release()
        return StoredUpload(id, name, mime, draft.size, expires)

    async def run(self) -> None:
        """Remove expired uploads now and then, until cancelled."""
        while True:
            try:
                await self.remove_expired()
            except LedgerError as error:
                log.warning("expired uploads stay for now", why=str(error))
            await self.clock.sleep(SWEEP_INTERVAL_S)

    async def remove_expired(self) -> int:
        """Let go of the uploads that no message has taken in time. Return their number."""
        removed = 0
        while count := await self.record.write(rows.drop_expired):
            removed += count
        if removed:
            self.store.unused.set()
            log.info("uploads that no message took were removed", files=removed)
        return removed


def _read_head(draft: BlobDraft) -> bytes:
    with files.store_errors(draft.path), draft.path.open("rb") as file:
        return file.read(HEAD_BYTES)


# ---------------------------------------------------------------- the files that a message names


def check_attached(attached: Sequence[Json]) -> tuple[AttachedFile, ...]:
    """Return the files that a message names, each {"id", "name"?}. Raises BadRequest."""
    if len(attached) > MAX_MESSAGE_FILES:
        raise BadRequest(f"files: a message has at most {MAX_MESSAGE_FILES} files, this one {len(attached)}")
    return tuple(_check_file(place, file) for place, file in enumerate(attached))


def _check_file(place: int, file: Json) -> AttachedFile:
    id, name = file.get("id"), file.get("name")
    if not isinstance(id, str) or not re.fullmatch(files.BLOB_ID, id):
        raise BadRequest(f"files[{place}].id: it is not the id that POST /v1/files gave a file")
    return AttachedFile(id, None if name is None else plain_name(str(name)))


async def measure_images(store: FileStore, attached: Sequence[AttachedFile]) -> tuple[AttachedFile, ...]:
    """Return the files of a message with the sizes of those that are images. One that is not there is left as it is."""
    return tuple([await asyncio.to_thread(_measure_image, store, file) for file in attached])


def _measure_image(store: FileStore, file: AttachedFile) -> AttachedFile:
    try:
        with store.content.open(file.id) as content:
            return replace(file, image_size=describe_image_size(content.read(IMAGE_HEAD_BYTES)))
    except (files.StoreFailed, OSError):
        return file


def explain_file_not_there(error: rows.FileNotThere) -> NotFound:
    """Return the error for a caller whose message names a file that is not there."""
    return NotFound(
        f"files[{error.place}]: there is no uploaded file {error.id}. An upload that no message takes is removed "
        f"after {UPLOAD_LIFE_S // 3600} hours: upload it again, then send the message again"
    )


def explain_files_too_large(error: rows.FilesTooLarge) -> BadRequest:
    """Return the error for a caller whose message names files that are too large together."""
    return BadRequest(
        f"files: they have {error.size:,} bytes together, and a message at most {MAX_MESSAGE_FILE_BYTES:,}; send them "
        "in several messages"
    )
