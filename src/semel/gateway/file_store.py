"""Count the stored files that no entry refers to yet, so that none is removed before its message is recorded.

A file of a channel or an agent is stored first; the message or entry that refers to it is recorded later. Until then
the file is *held*: counted here. `Erasures` removes only files that are not held and belong to no entry. Equal content
shares one blob, so without the count, `Erasures` could remove a blob that is just being stored again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable
from functools import partial

import structlog

from semel.gateway.files import BlobDraft, StoredFiles, StoreFailed, plain_mime, plain_name
from semel.gateway.image_size import describe_image_size
from semel.gateway.ports import Kept, TooLarge
from semel.gateway.record import LedgerAccess
from semel.ledger.inbound import channel_batch as rows
from semel.ledger.storage.errors import LedgerError

log = structlog.get_logger("semel.files")

WRITE_BYTES = 1 << 20  # bytes per write of a file that is received


class FileStore:
    """The stored files, and who is using them.

    Use `with store:` around each copy into it and the transaction that records the copy. While such a block is open, no
    file is removed. `content`: where the content is. `begun`: how many blocks have begun. `open`: how many blocks have
    not ended. `held`: how often each blob is held, by id. `unused`: set when a file may have become unused.
    """

    def __init__(self, content: StoredFiles) -> None:
        self.content = content
        self.begun = 0
        self.open = 0
        self.held: Counter[str] = Counter()
        self.unused = asyncio.Event()

    def __enter__(self) -> None:
        self.begun += 1
        self.open += 1

    def __exit__(self, *_: object) -> None:
        self.open -= 1

    async def take_in_files(self) -> None:
        """Move the blobs of a ledger in a database that are elsewhere to where they belong.

        An earlier Semel has put them into this machine's folder; or they are in the database, and belong into object
        storage now. After a kill or an error, the next start goes on.
        """
        taken, lacking, after = 0, 0, ""
        try:
            while ids := await asyncio.to_thread(self.content.list_lacking, after):
                for id in ids:
                    is_taken = await asyncio.to_thread(self.content.take_in, id)
                    taken, lacking = taken + is_taken, lacking + (not is_taken)
                after = ids[-1]
        except (LedgerError, StoreFailed) as error:
            log.warning("files of messages stay where they are until the next start", why=str(error))
        if taken:
            log.info("files of messages were moved to where they belong", files=taken)
        if lacking:
            log.warning(
                "files of messages are nowhere to be found: start the gateway once on the machine and "
                "with the data directory that have them",
                files=lacking, folder=str(self.content.folder),
            )  # fmt: skip


class HeldFiles:
    """The files that a channel or an agent holds: they are stored, and not yet recorded or released."""

    def __init__(self, record: LedgerAccess, store: FileStore) -> None:
        self.record = record
        self.store = store
        self._held: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._held.total()} held>"

    async def hold(self, id: str, size: int, name: str, mime: str, write: Callable[[], None]) -> None:
        """Write a file's row, hold its blob, and store its content by calling `write` in a thread.

        While the blob is held, no file with the same content is removed. The row is written first. A crash after that
        leaves a row without a blob, which is cleaned up later; a crash before it leaves at most a draft, which the next
        start removes. There is never a blob without a row.
        """
        with self.store:
            await self.record.write(rows.record_file, id, size, name, mime)
            self._held[id] += 1
            self.store.held[id] += 1
            await asyncio.to_thread(write)

    def let_go(self, ids: Iterable[str]) -> None:
        """Stop holding these files, each once, because their message was recorded or refused."""
        for id in ids:
            if self._held[id] > 0:
                self._held[id] -= 1
                self.store.held[id] -= 1
                if not self.store.held[id]:
                    del self.store.held[id]

    async def release(self) -> None:
        """Stop holding all files. Files that no entry refers to are removed later."""
        ids = list(self._held.elements())
        if not ids:
            return
        self.let_go(ids)
        try:
            await self.record.write(rows.release_files, list(dict.fromkeys(ids)))
        except LedgerError as error:  # the next start cleans up
            log.warning("stored files that nothing refers to stay until the next start", why=str(error))
        self.store.unused.set()


class ReceivedFiles(HeldFiles):
    """The received files of one channel.

    Each is held until its message is put into the inbox, or the channel's `run` ends.
    """

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int) -> Kept:
        """Store a received file (see `ports.Inbox.keep`).

        If this raises StoreFailed or LedgerError, nothing was stored.
        """
        draft = await asyncio.to_thread(self.store.content.start_draft)
        try:
            await write_content(draft, name, content, limit)
            id = await asyncio.to_thread(draft.finish)
            image = describe_image_size(draft.head)
            kept = Kept(id, draft.size, plain_name(name), plain_mime(mime), image.get("width"), image.get("height"))
            publish = partial(self.store.content.store_draft, draft, kept.name, kept.mime)
            await self.hold(id, kept.size, kept.name, kept.mime, publish)  # only now: `hold` delays removals
        finally:
            draft.discard()
        return kept


async def write_content(draft: BlobDraft, name: str, content: AsyncIterable[bytes], limit: int) -> None:
    """Write a file to a draft as it comes. `limit`: its maximum size in bytes. Raises TooLarge, StoreFailed."""
    buffer = bytearray()
    async for piece in content:
        buffer += piece
        if draft.size + len(buffer) > limit:
            raise TooLarge(f"{plain_name(name)} is larger than {limit:,} bytes")
        if len(buffer) >= WRITE_BYTES:
            await asyncio.to_thread(draft.write, bytes(buffer))
            buffer.clear()
    await asyncio.to_thread(draft.write, bytes(buffer))
