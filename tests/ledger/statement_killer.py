"""Kills processes before statements of SQLite, each process with a copy of a ledger.

For scripts that run alone, since each process is a fork.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import apsw

COMPANIONS = ("", "-wal", ".mark")
CLOCK_TICK_NS = 100_000_000  # longer than any tick of a file system's clock


def kill_everywhere(
    ledger: Path, folder: Path, body: Callable[[Path], object], step: int = 1
) -> list[tuple[str, bool]]:
    """Run `body(copy)` in processes that SIGKILL strikes before the statement 0, `step`, 2 * `step` and so on.

    The last process has no such statement and ends by itself. Return [(copy of the ledger, whether it was killed)].
    """
    outcomes: list[tuple[str, bool]] = []
    while not outcomes or outcomes[-1][1]:
        copy = copy_ledger(ledger, folder / f"{len(outcomes)}")
        outcomes.append((str(copy), _run_until(step * len(outcomes), body, copy)))
    return outcomes


def kill_in_every_state(
    ledger: Path, folder: Path, body: Callable[[Path], object]
) -> tuple[int, list[tuple[str, bool]]]:
    """Run `body(copy)` in processes that SIGKILL strikes in every state in which a kill can leave the files.

    What a kill leaves is the files. Statements that leave them as they are, such as those of a transaction before its
    commit, need no kill each: one strikes before the first of them, one before the last. The last process ends by
    itself. Return how many statements there are, and [(copy of the ledger, whether it was killed)].
    """
    states = _list_states(body, copy_ledger(ledger, folder / "watched"))
    count = len(states)
    ends = [n for n in range(count) if n in (0, count - 1) or states[n] != states[n - 1] or states[n] != states[n + 1]]
    outcomes: list[tuple[str, bool]] = []
    for statements in (*ends, count):
        copy = copy_ledger(ledger, folder / f"{statements}")
        outcomes.append((str(copy), _run_until(statements, body, copy)))
    return count, outcomes


def copy_ledger(ledger: Path, folder: Path) -> Path:
    copy = folder / "ledger.db"
    copy.parent.mkdir(parents=True)
    for suffix in COMPANIONS:
        if Path(f"{ledger}{suffix}").exists():
            shutil.copy(f"{ledger}{suffix}", f"{copy}{suffix}")
    return copy


def _list_states(body: Callable[[Path], object], copy: Path) -> list[str]:
    """Digests of the files beside the copy before each statement of `body(copy)`."""
    listed = copy.with_name("states")
    pid = os.fork()
    if not pid:
        states: list[str] = []
        known: dict[tuple[int, int, int], bytes] = {}

        def look(*_: object) -> bool:
            states.append(_digest_files(copy.parent, known))
            return True

        apsw.connection_hooks.append(lambda db: setattr(db, "exec_trace", look))
        body(copy)
        listed.write_text(json.dumps(states))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0
    found: list[str] = json.loads(listed.read_text())
    return found


def _digest_files(folder: Path, known: dict[tuple[int, int, int], bytes]) -> str:
    """A digest of the names and contents, but for the index of the log, which SQLite makes anew after a kill.

    `known`: digests of files as they were at other calls. A file that was changed just now may change again within the
    same tick of the file system's clock, so it is read each time.
    """
    digest = hashlib.blake2b()
    for path in sorted(folder.iterdir()):
        if path.name.endswith("-shm"):
            continue
        state = path.stat()
        version = (state.st_ino, state.st_size, state.st_mtime_ns)
        if version not in known or time.time_ns() - state.st_mtime_ns < CLOCK_TICK_NS:
            known[version] = hashlib.blake2b(path.read_bytes()).digest()
        digest.update(f"{path.name} {state.st_size} ".encode() + known[version])
    return digest.hexdigest()


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
