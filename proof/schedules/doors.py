"""What stands in the gateway for rooms that only sockets or a disk would come to: its tools' door, and the search."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class Door:
    """`semel.gateway.tools.rpc.RpcServer` without its socket: the handler, while it is open."""

    def __init__(self, path: Path, handler: Callable[[str, Json], Awaitable[Json]], **more: Any) -> None:
        self.handler = handler
        self.open = False

    async def start(self) -> None:
        self.open = True

    async def stop(self, grace: float = 2.0) -> None:
        self.open = False


class NoSearch:
    """`semel.gateway.api.search.Search`: an index that follows the ledger, and that nothing here asks."""

    def __init__(self, record: Any) -> None:
        self.record = record

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        return None
