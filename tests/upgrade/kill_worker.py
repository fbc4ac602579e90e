"""Opens copies of an old ledger in processes that die before a statement, the first, the second and so on.

    python kill_worker.py LEDGER FOLDER

Each process is a fork: it upgrades its copy, and SIGKILL strikes before its Nth statement. The last process has no
statement left and ends by itself. Writes [[copy, killed]] to stdout, as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import apsw
from upgrade_desk import WAY

from semel.ledger.storage.store import Store

COMPANIONS = ("", "-wal", ".mark")


def main(ledger: Path, folder: Path) -> None:
    outcomes = []
    killed = True
    while killed:
        copy = folder / f"{len(outcomes)}" / "ledger.db"
        copy.parent.mkdir(parents=True)
        for suffix in COMPANIONS:
            shutil.copy(f"{ledger}{suffix}", f"{copy}{suffix}")
        killed = _upgrade_until(copy, len(outcomes))
        outcomes.append((str(copy), killed))
    print(json.dumps(outcomes))


def _upgrade_until(copy: Path, statements: int) -> bool:
    """Upgrade in a process that is killed before the statement after so many. Returns whether it was killed."""
    pid = os.fork()
    if not pid:
        left = [statements]

        def count(*_: object) -> bool:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return True

        apsw.connection_hooks.append(lambda db: setattr(db, "exec_trace", count))
        Store.open_sync(copy, migrations=WAY)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return os.waitstatus_to_exitcode(status) != 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
