"""Run as a program: a ledger on a disk that fills up, or may not be written. Prints one JSON object.

python small_disk.py full FOLDER     the disk at FOLDER is small; a ballast file is removed to make space
python small_disk.py limit FOLDER    the process may write only small files; then the limit is lifted
python small_disk.py open FOLDER     only open it; print the refusal
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from semel.ledger.sqlite.store import Store
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.sql import Tx


def note(tx: Tx, source: str) -> int:
    return tx.count_changed("cursor_set", source=source, value="x" * 20_000, at=tx.now)


def noted(tx: Tx, source: str) -> bool:
    return tx.value(str, "cursor_get", source=source) is not None


async def fill(path: Path, make_room: Callable[[], object]) -> dict[str, Any]:
    """Eight clients write until the disk is full; then there is room again, and they go on."""
    accepted: list[str] = []
    refused: dict[str, BaseException] = {}
    store = Store.open(path)

    async def client(name: int) -> None:
        for n in range(1000):
            source = f"{name}.{n}"
            try:
                await store.write(note, source)
                accepted.append(source)
            except LedgerError as error:
                refused[source] = error
                return

    await asyncio.gather(*(client(name) for name in range(8)))
    readable = all([await store.read(noted, source) for source in accepted])
    make_room()
    async with asyncio.timeout(30):
        await store.write(note, "after")
    came_back = [source for source in refused if await store.read(noted, source)]
    store.close()
    with Store.open(path) as again:
        kept = all(again.read_sync(noted, source) for source in [*accepted, "after"])
    return {
        "accepted": len(accepted),
        "refused": sorted({type(error).__name__ for error in refused.values()}),
        "clients refused": len(refused),
        "message": str(next(iter(refused.values()), "")),
        "readable while full": readable,
        "refused but there": came_back,
        "all accepted are there after": kept,
    }


def full(folder: Path) -> dict[str, Any]:
    ballast = folder / "ballast"
    ballast.write_bytes(b"\0" * 5_000_000)
    return asyncio.run(fill(folder / "ledger.db", ballast.unlink))


def limit(folder: Path) -> dict[str, Any]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that the write fails with EFBIG instead
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    return asyncio.run(fill(folder / "ledger.db", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))))


def only_open(folder: Path) -> dict[str, Any]:
    try:
        with Store.open(folder / "ledger.db", readonly="READONLY" in os.environ):
            return {"refused": "", "message": ""}
    except LedgerError as error:
        return {"refused": type(error).__name__, "message": str(error)}


if __name__ == "__main__":
    deed = {"full": full, "limit": limit, "open": only_open}[sys.argv[1]]
    print(json.dumps(deed(Path(sys.argv[2]))))
