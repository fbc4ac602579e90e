"""Non-blocking readers and writers for an agent's stdin, stdout and stderr, with bounded memory.

They work on raw file descriptors in the event loop rather than on asyncio's streams, so that reading can be paused and
a process's last output can be drained synchronously after its exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import IO

CHUNK_BYTES = 256 * 1024
MAX_UNSENT_BYTES = 64 * 1024 * 1024  # an agent that leaves more unread counts as dead
MAX_STDERR_LINE_BYTES = 4096  # the rest of a longer line is dropped
KEPT_STDERR_LINES = 20  # lines that are not blank


class StdinWriter:
    """An agent's stdin. `write` never blocks; bytes that do not fit into the pipe are sent when the agent reads."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._unsent = bytearray()
        self._open = True
        os.set_blocking(pipe.fileno(), False)

    @property
    def stuck(self) -> bool:
        """Whether the agent has stopped reading: more bytes are unsent than any prompt holds."""
        return len(self._unsent) > MAX_UNSENT_BYTES

    def write(self, data: bytes) -> None:
        """Send these bytes after all earlier ones. A closed pipe drops them; the reader reports the agent's death."""
        if not self._open or self.stuck:
            return
        idle = not self._unsent
        self._unsent += data
        if idle and not self._flush() and self._open:
            asyncio.get_running_loop().add_writer(self._pipe.fileno(), self._writable)

    def _writable(self) -> None:
        if self._flush() and self._open:
            asyncio.get_running_loop().remove_writer(self._pipe.fileno())

    def _flush(self) -> bool:
        """Write as much as the pipe takes; True if nothing is left to write."""
        try:
            while self._unsent:
                sent = os.write(self._pipe.fileno(), memoryview(self._unsent)[:CHUNK_BYTES])
                del self._unsent[:sent]
        except BlockingIOError:
            return False
        except OSError:
            self._unsent.clear()
            self.close()
        return True

    def close(self) -> None:
        """Close the pipe. May be called twice."""
        if not self._open:
            return
        self._open = False
        with contextlib.suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().remove_writer(self._pipe.fileno())
        with contextlib.suppress(OSError):
            self._pipe.close()


class StdoutReader:
    """An agent's stdout. Calls `on_data` with chunks of up to 256 KiB, then `on_end` once at end-of-file."""

    def __init__(self, pipe: IO[bytes], on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._pipe = pipe
        self._on_data = on_data
        self._on_end = on_end
        self._open = True
        self._paused = True
        os.set_blocking(pipe.fileno(), False)
        self.resume()

    def pause(self) -> None:
        """Stop reading for now. The agent blocks once the pipe is full; nothing is lost."""
        if self._open and not self._paused:
            self._paused = True
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())

    def resume(self) -> None:
        if self._open and self._paused:
            self._paused = False
            asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._readable)

    def _readable(self) -> None:
        try:
            chunk = os.read(self._pipe.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self._on_data(chunk)
        else:
            self.close()
            self._on_end()

    def close(self) -> None:
        """Stop reading, without `on_end`. May be called twice."""
        if not self._open:
            return
        self.pause()
        self._open = False
        self._pipe.close()


class StderrReader:
    """An agent's stderr: passes each line to `log` and keeps the last ones for `tail`.

    It must always be read: an agent whose stderr pipe is full blocks for good.
    """

    def __init__(self, pipe: IO[bytes], log: Callable[[str], None]) -> None:
        self._pipe = pipe
        self._log = log
        self._lines: deque[str] = deque(maxlen=KEPT_STDERR_LINES)
        self._part = b""
        self._skip = False  # inside the rest of an overlong line
        self._open = True
        os.set_blocking(pipe.fileno(), False)
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._readable)

    def tail(self, lines: int = 5) -> str:
        """The last lines that are not blank (20 at most), joined by newlines; "" if there are none."""
        return "\n".join(list(self._lines)[-lines:])

    def _readable(self) -> bool:
        """Read once; True if there may be more."""
        try:
            chunk = os.read(self._pipe.fileno(), 65536)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return False
        *whole, rest = (self._part + chunk).split(b"\n")
        for line in whole:
            self._keep(line)
            self._skip = False
        if len(rest) > MAX_STDERR_LINE_BYTES:
            self._keep(rest)
            self._skip, rest = True, b""
        self._part = rest
        return True

    def _keep(self, line: bytes) -> None:
        if self._skip:
            return
        text = line[:MAX_STDERR_LINE_BYTES].decode(errors="replace").rstrip("\r")
        if text.strip():
            self._lines.append(text)
        self._log(text)

    def drain(self) -> None:
        """Read all that is in the pipe now: the last output of a process that has just died."""
        for _ in range(64):
            if not self._open or not self._readable():
                return

    def close(self) -> None:
        """Stop reading. May be called twice."""
        if not self._open:
            return
        self._open = False
        with contextlib.suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        if self._part:
            self._keep(self._part)
            self._part = b""
        self._pipe.close()
