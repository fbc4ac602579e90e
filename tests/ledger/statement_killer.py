"""Kills processes before a statement of SQLite: the first, the second and so on, each with a copy of a ledger.

For scripts that run alone, since each process is a fork.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import apsw

COMPANIONS = ("", "-wal", ".mark")


def kill_everywhere(
    ledger: Path, folder: Path, body: Callable[[Path], object], step: int = 1
) -> list[tuple[str, bool]]:
    """Run `body(copy)` in processes that SIGKILL strikes before the statement 0, `step`, 2 * `step` and so on.

    The last process has no such statement and ends by itself. Return [(copy of the ledger, whether it was killed)].
    """
    outcomes: list[tuple[str, bool]] = []
    while not outcomes or outcomes[-1][1]:
        copy = folder / f"{len(outcomes)}" / "ledger.db"
        copy.parent.mkdir(parents=True)
        for suffix in COMPANIONS:
            if Path(f"{ledger}{suffix}").exists():
                shutil.copy(f"{ledger}{suffix}", f"{copy}{suffix}")
        outcomes.append((str(copy), _run_until(step * len(outcomes), body, copy)))
    return outcomes


def _run_until(statements: int, body: Callable[[Path], object], copy: Path) -> bool:
    """Run `body(copy)` in a process that is killed before the statement after so many. Return whether it was killed."""
    pid = os.fork()
    if not pid:
        left = [statements]

        def count(*_: object) -> bool:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return True

        apsw.connection_hooks.append(lambda db: setattr(db, "exec_trace", count))
        body(copy)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return os.waitstatus_to_exitcode(status) != 0
