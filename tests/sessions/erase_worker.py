"""Deletes a session as a process of its own, and kills itself after so many steps.

python erase_worker.py LEDGER SESSION STEPS
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from semel.ledger.admin import erase
from semel.ledger.sqlite.store import Store
from semel.ledger.transcript import views
from semel.ledger.turns import sessions


def main(ledger: Path, key: str, steps: int) -> None:
    store = Store.open_sync(ledger)
    row = store.read_sync(views.find_session, key)
    if row is not None:
        store.write_sync(sessions.delete, row.id)
    done, left = 0, store.read_sync(erase.list_unfinished)
    while left and done < steps:
        if store.write_sync(erase.erase_step, left[0]) == "done":
            left = left[1:]
        done += 1
    if left:
        os.kill(os.getpid(), signal.SIGKILL)
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
