"""The first instruction of every agent process: wait until its spawn is recorded, then become the agent.

Run by path as `python -I -S launch.py CONTROL_FD -- COMMAND...`, so it imports nothing of Semel. CONTROL_FD
is the read end of a pipe whose only writer is the gateway. One line comes over it, MARK, when the spawn's row
is committed; then COMMAND is executed with SEMEL_SPAWN=MARK in its environment. At the end of the file the
gateway is dead, and nothing is executed: nothing runs that is not recorded (Law 10).
"""

from __future__ import annotations

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Linux: be killed when the thread that started this process ends, the gateway's event loop thread."""
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):
        pass  # its guard stands without it (guard.py)


def read_mark(control: int) -> str | None:
    """The mark, or None if the gateway died before it recorded this spawn."""
    got = b""
    while not got.endswith(b"\n"):
        byte = os.read(control, 1)
        if not byte:
            return None
        got += byte
    return got.decode().strip()


def main() -> None:
    control, command = int(sys.argv[1]), sys.argv[3:]
    os.set_inheritable(control, False)
    die_with_parent()
    mark = read_mark(control)
    if mark is None:
        os._exit(0)
    os.environ["SEMEL_SPAWN"] = mark
    for one in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(one, signal.SIG_DFL)  # Python ignores them, and what it executes would inherit that
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main()
