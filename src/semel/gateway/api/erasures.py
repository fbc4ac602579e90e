"""The content of deleted sessions goes in the background, a short transaction at a time (Law 11).

What is left when the gateway ends, the next one goes on with. A file goes last: only when no entry holds it and no
tool is copying one, for equal content shares one file.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import structlog

from semel.gateway import files
from semel.gateway.transactions import Record
from semel.ledger.admin import erase
from semel.ledger.storage.errors import LedgerError

log = structlog.get_logger("semel.erasures")

LATER_S = 5.0  # where something is still under way to a platform
RETRY_S = 2.0  # after the ledger could not be used


class Copies(Protocol):
    """Who copies files into the store: how many copies were begun, and how many of them are not in the ledger yet."""

    begun: int
    open: int
    kept: Mapping[str, int]  # received, and waiting for their message


class Erasures:
    """`add` a session that was deleted; `run` until cancelled."""

    def __init__(self, record: Record, blobs: Path, copies: Copies) -> None:
        self.record = record
        self.blobs = blobs
        self.copies = copies
        self.todo: list[int] = []
        self.later_s = LATER_S
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Erasures {len(self.todo)} sessions>"

    def add(self, session: int) -> None:
        """It was deleted, and its agent ended: its content goes now."""
        if session not in self.todo:
            self.todo.append(session)
        self._news.set()

    def look(self) -> None:
        """A file may have lost the last that held it."""
        self._news.set()

    async def run(self) -> None:
        """Until cancelled. Each piece is committed before the next is begun, and others may write in between."""
        self.todo = [*await self.record.read(erase.left), *self.todo]
        while True:
            self._news.clear()
            wait: float | None = None
            for session in list(self.todo):
                try:
                    if await self._erase(session):
                        self.todo.remove(session)
                    else:
                        wait = self.later_s
                except LedgerError as fault:
                    log.warning("an erasure is put off", session=session, why=str(fault))
                    wait = RETRY_S
            try:
                if not await self._files():
                    wait = RETRY_S
            except (LedgerError, OSError) as fault:
                log.warning("a file that nobody holds is not removed yet", why=str(fault))
                wait = RETRY_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._news.wait()

    async def _erase(self, session: int) -> bool:
        """True: all of it is gone."""
        step = "more"
        while step == "more":
            step = await self.record.write(erase.step, session)
        return step == "done"

    async def _files(self) -> bool:
        """Remove what nobody holds any more. False: not now."""
        before = self.copies.begun
        gone = await self.record.read(erase.files_gone)
        if not gone:
            return True
        if self.copies.open or self.copies.begun != before:
            return False  # a copy may be of the very content: it is looked at again when that is in the ledger
        found, gone = len(gone), [id for id in gone if not self.copies.kept.get(id)]
        for id in gone:  # no await in between: no copy can begin
            with contextlib.suppress(FileNotFoundError):
                files.blob_path(self.blobs, id).unlink()
        await self.record.write(erase.files_removed, gone)
        return found < erase.FILES
