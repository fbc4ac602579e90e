"""What kills an agent's process group when the gateway dies, however it dies: one small shell.

PDEATHSIG reaches only the leader of the group, on Linux only, and agents are often launchers whose
workers go on and make the calls that were in their model's answer (docs/decisions/own-the-pipe.md). A
pipe's end is seen on every system. The guard is the gateway's child in a session of its own; a clean end
tells it to go.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

SCRIPT = '''trap "" INT TERM HUP; read -r word; [ "$word" = leave ] || kill -s KILL -- "-$1"'''


class Guard:
    """Holds one process group to the life of this process."""

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
        """The group is gone: so is the guard, reaped. Takes about a millisecond; may be called twice."""
        if self._pipe is None:
            return
        with contextlib.suppress(OSError):
            os.write(self._pipe, b"leave\n")
        os.close(self._pipe)
        self._pipe = None
        self._popen.wait()
