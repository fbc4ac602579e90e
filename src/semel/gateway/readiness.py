"""Readiness: whether the gateway can accept messages now, that is, whether its ledger can be written.

Reading works even if the disk is full or has become read-only, so only a write can tell. A small write may find room in
the ledger's files when the disk is full already, so a test also lets the files grow. `/readyz` needs no token, so the
result of one test serves all callers for a few seconds: nobody can keep the disk busy by asking.
"""

from __future__ import annotations

import asyncio

from semel.gateway.disk_use import find_growth_problem
from semel.ledger.storage.errors import LedgerClosed, LedgerError
from semel.ledger.storage.store import LedgerStore

TEST_INTERVAL_S = 5.0  # for how long the outcome of a test write is the answer
TEST_TIMEOUT_S = 5.0  # how long a test write may take


class Readiness:
    """Tests the ledger with a write of its own, and whether its files may grow."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._problem: str | None = None
        self._tested_at: float | None = None  # in the event loop's time
        self._testing = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Readiness {self._problem or 'ready'}>"

    async def find_problem(self) -> str | None:
        """Return why the ledger cannot be written, and in the last sentence what to do; None if it can."""
        async with self._testing:
            now = asyncio.get_running_loop().time()
            if self._tested_at is None or now - self._tested_at >= TEST_INTERVAL_S:
                self._problem = await self._test_write()
                self._tested_at = asyncio.get_running_loop().time()
        return self._problem

    async def _test_write(self) -> str | None:
        try:
            async with asyncio.timeout(TEST_TIMEOUT_S):
                await self._store.test_write()
                problem = await asyncio.to_thread(find_growth_problem, self._store.path)
        except TimeoutError:
            return f"The ledger did not take a write within {TEST_TIMEOUT_S:g} s."
        except LedgerClosed:
            return "The ledger is closed: the gateway is stopping."
        except LedgerError as error:  # a caller without a token may not learn the path
            return error.format_without_path()
        return None if problem is None else f"The ledger takes no large message: {problem}"
