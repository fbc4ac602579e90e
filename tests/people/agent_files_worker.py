"""A gateway that kills itself at a point: `python agent_files_worker.py POINT PLACE ASKED`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from people_world import Chat

from semel.gateway.files import FolderFiles
from semel.gateway.record import LedgerAccess
from semel.ledger.inbound import channel_batch
from semel.ledger.turns import show, turn_ops

POINT, PLACE, ASKED = sys.argv[1:]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def has_file(args: tuple[Any, ...]) -> bool:
    batches = [arg for arg in args if isinstance(arg, list)]
    blocks = [op for batch in batches for op in batch if isinstance(op, turn_ops.Block)]
    return any(request.kind == "file" for block in blocks for request in block.requests)


write, store_bytes = LedgerAccess.write, FolderFiles.store_bytes


async def dying_write(self: LedgerAccess, body: Any, /, *args: Any, **more: Any) -> Any:
    if POINT == "before the entry" and body is show.show and has_file(args):
        die()
    done = await write(self, body, *args, **more)
    if POINT == "row" and body is channel_batch.record_file:
        die()
    if POINT == "entry" and body is show.show and has_file(args):
        die()
    return done


def dying_store(*args: Any) -> None:
    store_bytes(*args)
    if POINT == "blob":
        die()


LedgerAccess.write = dying_write  # type: ignore[method-assign]
FolderFiles.store_bytes = dying_store  # type: ignore[method-assign]


async def main() -> None:
    async with Chat(Path(PLACE), own={"narration": "all"}) as chat:
        await chat.tell(ASKED)
        await asyncio.sleep(120)


asyncio.run(main())
