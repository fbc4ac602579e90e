"""`semel up` beside a gateway that an editor has started: end that one, and start in its place.

An editor starts a gateway where none runs, also in the moment between a person's stop and start. Then the person's
gateway must be the one that stays: it has the options and variables that were meant, and its service manager.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from semel.faces.cli.drain import POLL_INTERVAL_S, await_end
from semel.tools.address import START_LOCK_FILE, find_giving_way, try_lock_start

START_LOCK_TIMEOUT_S = 60.0  # as long as an editor waits for the gateway that it starts


@contextlib.contextmanager
def take_over(data_dir: Path) -> Iterator[None]:
    """End the gateway of a data directory if it gives way, and let no editor start one until the block ends.

    If an editor is starting one now, wait for it. Running turns of the gateway have time to end, as at Ctrl-C.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # none has started here yet; or the start itself says what is wrong
            _wait_to_lock_start(stack.enter_context((data_dir / START_LOCK_FILE).open("wb")))
        if (pid := find_giving_way(data_dir)) is not None:
            _log("taking over from the gateway that an editor started", process=pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            await_end(pid)
        yield


def _wait_to_lock_start(lock: BinaryIO) -> None:
    """Lock the file, or give up after a while: if a gateway runs by then, the start says so."""
    if try_lock_start(lock):
        return
    _log("another start on the same data is under way; waiting for it")
    end = time.monotonic() + START_LOCK_TIMEOUT_S
    while not try_lock_start(lock) and time.monotonic() <= end:
        time.sleep(POLL_INTERVAL_S)


def _log(event: str, **fields: object) -> None:
    import structlog

    structlog.get_logger("semel.up").info(event, **fields)
