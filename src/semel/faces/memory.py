"""The gateway's memory is private, and what is freed of it can be used again.

The memory and the first environment hold secrets: `/proc` shows them to no other process of the same user. Secrets of
channels come as variables (`env:NAME`), and agents run as the gateway's user: `cat /proc/PID/environ` would be all that
it takes. A process that is not dumpable (PR_SET_DUMPABLE(2const)) is shown, traced and dumped by root only. What else
that user can read (`owner.token`, files with secrets) it still can: docs/security.md.

glibc gives each thread a heap of its own, and keeps large blocks in it once one was freed. Rows that one thread makes
and another drops leave holes in each of them, so a gateway at work grew for hours while its objects did not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

PR_SET_DUMPABLE = 4
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3)."""
LARGE_BYTES = 128 * 1024
"""A block from this size on has pages of its own, and they go back when it is freed: glibc's default, here for good."""
OPEN = "SEMEL_DUMPABLE"
"""Set to 1, it leaves the process open to debuggers (py-spy, gdb) and core dumps."""


def keep_private(env: Mapping[str, str] = os.environ) -> bool:
    """Whether it is private now: on Linux, unless it is to stay open. What is executed from here is as ever."""
    if not sys.platform.startswith("linux") or env.get(OPEN) == "1":
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def keep_compact() -> bool:
    """Have one heap for all threads, and large blocks beside it. Whether the C library does so: glibc does.

    Call it before there are threads.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):
        return False
    settings = ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, LARGE_BYTES), (M_TRIM_THRESHOLD, LARGE_BYTES))
    return all(mallopt(parameter, value) == 1 for parameter, value in settings)
