"""Say why a program could not be started."""

from __future__ import annotations

import errno
import os
import shutil


def correct_start_error(program: str, error: OSError, path: str | None = None) -> OSError:
    """Return why a program could not be started: a FileNotFoundError if there is no such program, else `error`.

    Where a folder of the PATH may not be searched, the operating system says "Permission denied" although no other
    folder has the program.

    program  the name or path that was to be started
    path     the PATH on which it was looked up; None takes ours
    """
    if not isinstance(error, PermissionError) or "/" in program or shutil.which(program, os.F_OK, path) is not None:
        return error
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
