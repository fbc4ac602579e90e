"""Received files: into the store before their message is heard, and out of it again if it never is."""

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

PIECE = 1 << 20  # bytes that are written at once


class Receiving:
    """One channel's received files. What was kept is held until its message was put, or its channel's run ended."""

    def __init__(self, record: Record, blobs: Path, copies: Copies, gone: Callable[[], None]) -> None:
        self.record = record
        self.blobs = blobs
        self.copies = copies
        self.gone = gone  # called where a file may have lost the last that held it
        self._kept: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Receiving {self._kept.total()} files waiting>"

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int) -> Kept:
        """See `ports.Inbox.keep`. Raises StoreFailed or LedgerError, too: then nothing was kept."""
        draft = await asyncio.to_thread(files.Draft, self.blobs)
        try:
            await self._write(draft, name, content, limit)
            id = await asyncio.to_thread(draft.finish)
            kept = Kept(id, draft.size, plain_name(name), plain_mime(mime))
            # From here on no file of equal content is removed. Before, while it comes, that would last too long.
            with self.copies:
                # The row comes first: a gateway that dies before the file has its name leaves a row to clean up after,
                # and one that dies before the row leaves a draft. Nothing is left that nobody knows of.
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
            if len(held) >= PIECE:
                await asyncio.to_thread(draft.write, bytes(held))
                held.clear()
        await asyncio.to_thread(draft.write, bytes(held))

    def put(self, ids: Collection[str]) -> None:
        """Their message was put, or refused."""
        for id in ids:
            if self._kept[id] > 0:
                self._kept[id] -= 1
                self._release(id, 1)

    async def end(self) -> None:
        """The channel's run is over: what it kept and did not put goes."""
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
