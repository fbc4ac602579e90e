"""SIGKILL of a real process at any time: what it was told is durable is there, and the ledger opens at once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

from semel.ledger.sqlite.store import Store
from semel.ledger.storage.sql import Tx

PROGRAM = """
import asyncio, sys
from semel.ledger.sqlite.store import Store

def note(tx, source):
    tx.run("cursor_set", source=source, value="x" * (len(source) * 100), at=tx.now)

async def client(store, life, name):
    n = 0
    while True:
        source = f"{life}.{name}.{n}"
        await store.write(note, source)
        print(source, flush=True)
        n += 1

async def main(path, life):
    store = Store.open(path)
    await asyncio.gather(*(client(store, life, name) for name in range(8)))

asyncio.run(main(*sys.argv[1:]))
"""


def noted(tx: Tx, source: str) -> bool:
    return tx.value(str, "cursor_get", source=source) is not None


def test_after_a_kill_at_any_time_everything_acknowledged_is_there(tmp_path: Path) -> None:
    path, luck, told = tmp_path / "ledger.db", random.Random(11), list[str]()
    for life in range(6):
        command = [sys.executable, "-c", PROGRAM, str(path), str(life)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(luck.randrange(1, 400)):
                told.append(process.stdout.readline().strip())
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read()
            told += rest[: rest.rfind("\n") + 1].split()
        assert process.returncode == -signal.SIGKILL
        with Store.open(path) as store:
            missing = [source for source in told if not store.read_sync(noted, source)]
            assert missing == []
            assert store.write_sync(lambda tx: tx.count_changed("cursor_set", source="alive", value="yes", at=1)) == 1
    assert len(told) > 100
