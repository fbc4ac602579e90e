"""stdin, stdout and stderr of a command: on a full disk, with a reader that has gone, or closed from the start.

Python flushes stdout and stderr when it exits. If it cannot, it exits with 120, whatever the command's exit code was,
and prints a traceback if it can. So a command flushes them itself, and what cannot be written is given up before.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def open_closed_streams() -> None:
    """Open /dev/null in the place of a stream that whoever started the command has closed (`semel status >&-`).

    Call it first: else the next file that is opened takes the place. Python's name for a closed stream is None.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def flush_streams() -> bool:
    """Write what Python still buffers for stdout and stderr, before the process exits or becomes another program.

    A stream that cannot be written is redirected to nowhere. Returns False if there is one. Raises nothing.
    """
    are_written = True
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            are_written = False
            _discard(stream)
        except ValueError:  # it was closed after it was written
            pass
    return are_written


def _discard(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):  # a program that captures our output has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
