"""Erase the content of deleted sessions in the background, in short transactions (Law 11).

If this gateway ends before an erasure is finished, the next gateway continues it. Files are removed last, and only
while no copy into the store runs. Equal content shares one blob, so a running copy may need a blob that no entry holds
yet.
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from semel.gateway.file_store import FileStore
from semel.gateway.files import StoreFailed
from semel.gateway.record import LedgerAccess
from semel.ledger.admin import erase
from semel.ledger.storage.errors import LedgerError

log = structlog.get_logger("semel.erasures")

PART_UNDER_WAY_RETRY_S = 5.0  # delay until the next try while a part of the session is still being sent
STORE_AWAY_RETRY_S = 30.0  # delay until the next try while object storage does not remove a file
RETRY_S = 2.0  # delay after a ledger error, or while files are being copied


class Erasures:
    """Erase deleted sessions. Run `run` as a task, and pass each deleted session to `add`."""

    def __init__(self, record: LedgerAccess, store: FileStore, min_age_ms: int = 0) -> None:
        """Erase nothing yet. `min_age_ms`: how long after its deletion a session is erased that nobody has added."""
        self.min_age_ms = min_age_ms
        self.record = record
        self.store = store
        self.queue: list[int] = []
        self._is_complete = False  # whether the queue has all that the ledger has
        self.part_retry_s = PART_UNDER_WAY_RETRY_S
        self.store_retry_s = STORE_AWAY_RETRY_S

    def add(self, session: int) -> None:
        """Queue a deleted session to have its content erased. Its agent and jobs must have ended."""
        if session not in self.queue:
            self.queue.append(session)
        self.store.unused.set()

    def look_at_ledger(self) -> None:
        """Look at the ledger again: another gateway may have deleted a session."""
        self._is_complete = False
        self.store.unused.set()

    async def run(self) -> None:
        """Erase queued sessions until cancelled.

        Each step is a transaction of its own, so other writes come in between.
        """
        while True:
            self.store.unused.clear()
            wait: float | None = None
            try:
                await self._complete_queue()
            except LedgerError as error:
                log.warning("erasures are put off", why=str(error))
                wait = RETRY_S
            for session in list(self.queue):
                try:
                    if await self._erase(session):
                        self.queue.remove(session)
                    else:
                        wait = self.part_retry_s
                except LedgerError as error:
                    log.warning("an erasure is put off", session_id=session, why=str(error))
                    wait = RETRY_S
            try:
                if not await self._remove_unheld_files():
                    wait = RETRY_S
            except (LedgerError, OSError) as error:
                log.warning("a file that nobody holds is not removed yet", why=str(error))
                wait = RETRY_S
            except StoreFailed as error:
                log.warning("a file that nobody holds is not removed yet", why=str(error))
                wait = self.store_retry_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self.store.unused.wait()

    async def _complete_queue(self) -> None:
        """Add the deleted sessions that earlier gateways, or other ones, have left."""
        if not self._is_complete:
            unfinished = await self.record.read(erase.list_unfinished, self.min_age_ms)
            self.queue = [*unfinished, *(session for session in self.queue if session not in unfinished)]
            self._is_complete = True

    async def _erase(self, session: int) -> bool:
        """Erase a session step by step.

        Return False if it must be continued later, because a part is still being sent.
        """
        step = "more"
        while step == "more":
            step = await self.record.write(erase.erase_step, session)
        return step == "done"

    async def _remove_unheld_files(self) -> bool:
        """Remove files that no entry holds. Return False if some are left for a later call."""
        before = self.store.begun
        unheld_ids = await self.record.read(erase.list_unheld_files)
        if not unheld_ids:
            return True
        if self.store.open or self.store.begun != before:
            return False  # a running copy may have the same content; try again when it is recorded
        unheld, unheld_ids = len(unheld_ids), [id for id in unheld_ids if not self.store.held.get(id)]
        content = self.store.content
        content.remove(unheld_ids)  # no await since the check above, so no copy can have begun
        for start in range(0, len(unheld_ids), content.rows_per_step):
            step = unheld_ids[start : start + content.rows_per_step]
            await asyncio.to_thread(content.remove_objects, step)
            await self.record.write(erase.forget_files, step)
        return unheld < erase.FILES_PER_STEP
