"""Erase the content of deleted sessions in the background, in short transactions (Law 11).

The next gateway continues what is unfinished when this one ends. Files are removed last, and only while no copy into
the store runs: equal content shares one blob, so a running copy may be about to use a blob that no entry holds.
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

PART_UNDER_WAY_RETRY_S = 5.0  # delay until the next try while a part of the session is still being sent
RETRY_S = 2.0  # delay after a ledger error, or while files are being copied


class Copies(Protocol):
    """The counts of `semel.gateway.files.Copies`: copies begun so far, and those that the ledger does not hold yet."""

    begun: int
    open: int
    kept: Mapping[str, int]  # by blob id: stored files that wait for their message


class Erasures:
    """The queue of sessions to erase. `run` it as a task; `add` each session that was deleted."""

    def __init__(self, record: Record, blobs: Path, copies: Copies) -> None:
        self.record = record
        self.blobs = blobs
        self.copies = copies
        self.todo: list[int] = []
        self.later_s = PART_UNDER_WAY_RETRY_S
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Erasures {len(self.todo)} sessions>"

    def add(self, session: int) -> None:
        """Erase the content of a deleted session whose agent and jobs have ended."""
        if session not in self.todo:
            self.todo.append(session)
        self._news.set()

    def look(self) -> None:
        """Check for unused files: an entry or message that held one may be gone."""
        self._news.set()

    async def run(self) -> None:
        """Erase until cancelled. Each step is its own transaction, so that others can write in between."""
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
        """Erase a session step by step. False if it has to wait, for example for a part that is being sent."""
        step = "more"
        while step == "more":
            step = await self.record.write(erase.step, session)
        return step == "done"

    async def _files(self) -> bool:
        """Remove files that no entry holds. False if some are left for the next round."""
        before = self.copies.begun
        gone = await self.record.read(erase.files_gone)
        if not gone:
            return True
        if self.copies.open or self.copies.begun != before:
            return False  # a running copy may have this very content; look again once it is recorded
        found, gone = len(gone), [id for id in gone if not self.copies.kept.get(id)]
        for id in gone:  # no await since the check above, so no copy can have begun
            with contextlib.suppress(FileNotFoundError):
                files.blob_path(self.blobs, id).unlink()
        await self.record.write(erase.files_removed, gone)
        return found < erase.FILES_PER_STEP
