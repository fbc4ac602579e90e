"""Kill an agent's process group when the gateway dies, even by SIGKILL.

PDEATHSIG is not enough: it exists only on Linux and reaches only the group's leader, and many agents are launchers
whose workers would go on and run the tool calls of their model's last answer (docs/decisions/own-the-pipe.md).

So each group has a guard: a small shell in a session of its own, a child of the gateway, that reads from a pipe. If
the gateway dies, the pipe ends and the guard kills the group. After a normal end the gateway writes "leave" instead.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

SCRIPT = '''trap "" INT TERM HUP; read -r word; [ "$word" = leave ] || kill -s KILL -- "-$1"'''


class Guard:
    """A guard process that kills one process group if this process dies."""

    def __init__(self, pgid: int) -> None:
        theirs, ours = os.pipe()
        try:
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", SCRIPT, "semel-guard", str(pgid)],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._pipe: int | None = ours

    def leave(self) -> None:
        """Dismiss and reap the guard, once the group is gone. Takes about a millisecond; may be called twice."""
        if self._pipe is None:
            return
        with contextlib.suppress(OSError):
            os.write(self._pipe, b"leave\n")
        os.close(self._pipe)
        self._pipe = None
        self._popen.wait()
