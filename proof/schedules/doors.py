"""What stands in the gateway for the search, to which only a disk would come."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any


class NoSearch:
    """`semel.gateway.api.search.Search`: an index that follows the ledger, and that nothing here asks."""

    def __init__(self, record: Any, path: Path) -> None:
        self.record = record

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        return None
