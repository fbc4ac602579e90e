"""Do something in a process that kills itself right before its nth operation on files."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

WATCHED = frozenset({
    "open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.chmod", "os.truncate", "shutil.rmtree",
    "shutil.copyfile", "fcntl.flock", "os.listdir", "os.scandir", "test.step",
})  # fmt: skip


def dies_at(step: int, deed: Callable[[], object]) -> bool:
    """Whether the process that does the deed was killed at that step; else it came to the end."""
    child = os.fork()
    if child == 0:
        _live(step, deed)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"it ended with {code}"
    return code != 0


def _live(step: int, deed: Callable[[], object]) -> None:
    left = step

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in WATCHED:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

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
