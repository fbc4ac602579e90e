"""The gateway's memory and first environment hold secrets: `/proc` shows them to no other process of the same user.

Secrets of channels come as variables (`env:NAME`), and agents run as the gateway's user: `cat /proc/PID/environ` would
be all that it takes. A process that is not dumpable (PR_SET_DUMPABLE(2const)) is shown, traced and dumped by root only.
What else that user can read (`owner.token`, files with secrets) it still can: docs/security.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

PR_SET_DUMPABLE = 4
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
