"""The launcher of every agent process: wait until the spawn is recorded, then exec the agent.

It is run as `python -I -S launch.py CONTROL_FD -- COMMAND...` and imports nothing of Semel. CONTROL_FD is the read end
of a pipe whose only writer is the gateway. When the spawn's row is committed, the gateway writes one line, MARK; the
launcher then execs COMMAND with SEMEL_SPAWN=MARK in its environment. If the pipe ends without that line, the gateway
has died and the launcher exits. So no agent runs that is not recorded (Law 10).
"""

from __future__ import annotations

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """On Linux, make the kernel kill this process when the gateway's event loop thread ends.

    The kernel sends the signal (PDEATHSIG) when the *thread* that started this process ends. Agents are started in the
    event loop's thread.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):
        pass  # the guard process kills this process, too (acp/process.py)


def read_mark(control: int) -> str | None:
    """Read MARK from the control pipe. Return None if the gateway died before it recorded this spawn.

    `control`: the pipe's file descriptor.
    """
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(control, 1)
        if not byte:
            return None
        line += byte
    return line.decode().strip()


def main() -> None:
    control, command = int(sys.argv[1]), sys.argv[3:]
    os.set_inheritable(control, False)
    die_with_parent()
    mark = read_mark(control)
    if mark is None:
        os._exit(0)
    os.environ["SEMEL_SPAWN"] = mark
    for ignored_signal in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_signal, signal.SIG_DFL)  # Python ignores both, and the agent would inherit that
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main()
