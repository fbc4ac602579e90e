"""Store received files before their message is put, and release them if the message never is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, Callable, Collection
from pathlib import Path

import structlog

from semel.gateway import files
from semel.gateway.files import Copies, plain_mime, plain_name
from semel.gateway.ports import Kept, TooLarge
from semel.gateway.transactions import Record
from semel.ledger.inbound import channel_batch as rows
from semel.ledger.storage.errors import LedgerError

log = structlog.get_logger("semel.channels")

WRITE_BYTES = 1 << 20  # bytes per write


class ReceivedFiles:
    """The received files of one channel. A stored file is held until its message is put or the channel's run ends."""

    def __init__(self, record: Record, blobs: Path, copies: Copies, gone: Callable[[], None]) -> None:
        self.record = record
        self.blobs = blobs
        self.copies = copies
        self.gone = gone  # called when a file may have become unused
        self._kept: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Receiving {self._kept.total()} files waiting>"

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int) -> Kept:
        """See `ports.Inbox.keep`. Also raises StoreFailed or LedgerError; then nothing was kept."""
        draft = await asyncio.to_thread(files.Draft, self.blobs)
        try:
            await self._write(draft, name, content, limit)
            id = await asyncio.to_thread(draft.finish)
            kept = Kept(id, draft.size, plain_name(name), plain_mime(mime))
            # From here on no file of equal content is removed. The download is not covered: it may take too long.
            with self.copies:
                # The row is written before the rename. A crash in between leaves a row, which is cleaned up; a crash
                # before the row leaves a draft, which the next start removes. No blob is left without a row.
                await self.record.write(rows.keep, id, kept.size, kept.name, kept.mime)
                self._kept[id] += 1
                self.copies.kept[id] += 1
                await asyncio.to_thread(draft.name)
        finally:
            draft.discard()
        return kept

    async def _write(self, draft: files.Draft, name: str, content: AsyncIterable[bytes], limit: int) -> None:
        held = bytearray()
        async for piece in content:
            held += piece
            if draft.size + len(held) > limit:
                raise TooLarge(f"{plain_name(name)} is larger than {limit:,} bytes")
            if len(held) >= WRITE_BYTES:
                await asyncio.to_thread(draft.write, bytes(held))
                held.clear()
        await asyncio.to_thread(draft.write, bytes(held))

    def put(self, ids: Collection[str]) -> None:
        """Release the files of a message that was put or refused."""
        for id in ids:
            if self._kept[id] > 0:
                self._kept[id] -= 1
                self._release(id, 1)

    async def end(self) -> None:
        """Release the files that the channel kept and did not put. Called when its run is over."""
        left, self._kept = +self._kept, Counter()
        for id, times in left.items():
            self._release(id, times)
        if left:
            try:
                await self.record.write(rows.let_go, list(left))
            except LedgerError as fault:  # the next start does it
                log.warning("received files that no message came with stay until the next start", why=str(fault))
            self.gone()

    def _release(self, id: str, times: int) -> None:
        self.copies.kept[id] -= times
        if self.copies.kept[id] <= 0:
            del self.copies.kept[id]
