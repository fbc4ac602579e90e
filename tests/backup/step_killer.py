"""Do something in a process that kills itself right before its nth operation on files."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

WATCHED = frozenset({
    "open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.chmod", "os.truncate", "shutil.rmtree",
    "shutil.copyfile", "fcntl.flock", "os.listdir", "os.scandir", "test.step",
})  # fmt: skip


def dies_at(step: int, deed: Callable[[], object]) -> bool:
    """Whether the process that does the deed was killed at that step; else it came to the end."""
    child = os.fork()
    if child == 0:
        _live(_kill_at(step), deed)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"it ended with {code}"
    return code != 0


def find_steps(deed: Callable[[], object], describe: Callable[[], str], notes: Path) -> list[int]:
    """The steps of a deed before which things are as they were at none of the steps before.

    `describe` says how they are. `notes`: a new file for what the process that does the deed tells.
    """
    child = os.fork()
    if child == 0:
        seen = set[str]()

        def look(step: int) -> None:
            if (state := describe()) not in seen:
                seen.add(state)
                with notes.open("a") as file:
                    file.write(f"{step}\n")

        _live(look, deed)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return [int(line) for line in notes.read_text().split()]


def _kill_at(wanted: int) -> Callable[[int], None]:
    def strike(step: int) -> None:
        if step == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    return strike


def _live(look: Callable[[int], None], deed: Callable[[], object]) -> None:
    """Do the deed, call `look` with the number of each step before it, and end the process."""
    step, is_looking = 0, False

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal step, is_looking
        if event in WATCHED and not is_looking:
            step += 1
            is_looking = True
            look(step)
            is_looking = False

    try:
        sys.addaudithook(watch)
        fsync = os.fsync

        def synced(descriptor: int) -> None:
            sys.audit("test.step")
            fsync(descriptor)

        os.fsync = synced
        deed()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(3)
