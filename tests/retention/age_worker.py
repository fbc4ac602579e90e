"""Ages out a session in processes that die before a statement: every 40th, then the next 40th and so on.

    python age_worker.py LEDGER FOLDER

Each process is a fork with a copy of the ledger. The last one ends by itself. Writes [[copy, killed]] as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from semel.ledger.admin import age_out
from semel.ledger.storage.store import Store, now_ms

DAY_MS = 86_400_000
STATEMENTS_PER_STEP = 40


def later() -> int:
    return now_ms() + 100 * DAY_MS


def age(store: Store, session: int = 1) -> int:
    """Age out what is older than 90 days. Return the number of steps."""
    steps = 1
    while store.write_sync(age_out.age_step, session, 90 * DAY_MS):
        steps += 1
    return steps


def main(ledger: Path, folder: Path) -> None:
    outcomes: list[tuple[str, bool]] = []
    while not outcomes or outcomes[-1][1]:
        copy = folder / f"{len(outcomes)}.db"
        shutil.copy(ledger, copy)
        outcomes.append((str(copy), _age_until(copy, STATEMENTS_PER_STEP * len(outcomes))))
    print(json.dumps(outcomes))


def _age_until(copy: Path, statements: int) -> bool:
    pid = os.fork()
    if not pid:
        store, left = Store.open_sync(copy, clock=later), [statements]

        def count(*_: object) -> bool:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return True

        assert store._committer is not None
        store._committer._db.exec_trace = count
        age(store)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return os.waitstatus_to_exitcode(status) != 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
