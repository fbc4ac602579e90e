"""Tells a ledger that a message failed, and kills itself: `DIR/ledger.db OF before|after`, the commit."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from test_failed_later import report

from semel.ledger.sqlite.store import Store
from semel.ledger.storage.sql import Tx
from semel.testing import FrozenClock


def put(tx: Tx, of: str, where: str) -> Any:
    done = report(tx, of)
    if where == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    return done


async def main(ledger: str, of: str, where: str) -> None:
    store = await asyncio.to_thread(partial(Store.open, Path(ledger), clock=FrozenClock().now))
    await store.write(put, of, where)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
