"""Process memory settings: hide it from other processes of the same user, limit heap fragmentation, and spare the
garbage collector what stays for good.

Privacy: memory and environment hold secrets. Channel secrets come as environment variables (`env:NAME`), and agents run
as the gateway's user, so an agent could read them with `cat /proc/PID/environ`. The gateway makes itself non-dumpable
(PR_SET_DUMPABLE(2const)): then only root can read, trace or dump it. Files that the same user can read (`owner.token`,
files with secrets) stay readable: docs/security.md.

Fragmentation: glibc gives each thread its own heap. When a large block is freed, glibc raises the size from which
blocks get separate pages, so later large blocks are placed in the heaps. Rows allocated by one thread and freed by
another leave holes there, so a busy gateway grew for hours although its objects did not. One heap for all threads and
separate pages for large blocks prevent this.

Garbage: nearly all objects that a start makes are modules, classes and functions. To look through them for garbage
takes a tenth of the start, and later a part of every full collection.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping

PR_SET_DUMPABLE = 4
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3)."""
LARGE_BYTES = 128 * 1024
"""Blocks of at least this size get their own pages, returned on free. It is glibc's initial threshold, kept fixed."""
DUMPABLE_VARIABLE = "SEMEL_DUMPABLE"
"""Environment variable; "1" keeps the process open to debuggers (py-spy, gdb) and core dumps."""


def keep_private(env: Mapping[str, str] = os.environ) -> bool:
    """Make this process non-dumpable (Linux only). Returns whether it worked. Programs that it starts stay dumpable."""
    if not sys.platform.startswith("linux") or env.get(DUMPABLE_VARIABLE) == "1":
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def limit_fragmentation() -> bool:
    """Use one heap for all threads and separate pages for large blocks. Returns whether the C library accepted that.

    Call it before any thread starts.
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


def keep_started_objects() -> None:
    """Resume garbage collection, which was paused during the start, and leave out what exists now from then on.

    Of 80,000 objects, 1,200 are garbage then: to look for them would take 50 ms.
    """
    gc.freeze()
    gc.enable()
