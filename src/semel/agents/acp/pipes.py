"""An agent's pipes, as raw file descriptors on the event loop:

Never blocking, never more in memory than a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import IO

CHUNK = 256 * 1024
UNSENT = 64 * 1024 * 1024  # bytes an agent may leave unread before it counts as dead
LINE = 4096  # bytes of one line that are kept
KEPT = 20  # lines with words in them


class Writer:
    """An agent's stdin.

    `write` never waits and keeps the order; what does not fit goes when the agent reads.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._unsent = bytearray()
        self._open = True
        os.set_blocking(pipe.fileno(), False)

    @property
    def stuck(self) -> bool:
        """The agent has stopped reading: more waits for it than any prompt holds."""
        return len(self._unsent) > UNSENT

    def write(self, data: bytes) -> None:
        """Send these bytes after all earlier ones.

        A pipe that is closed takes them silently: a death is read.
        """
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
        """Write what fits; whether that was all."""
        try:
            while self._unsent:
                sent = os.write(self._pipe.fileno(), memoryview(self._unsent)[:CHUNK])
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


class Reader:
    """An agent's stdout in chunks of up to 256 KB: `on_data(bytes)`, and `on_end()` once."""

    def __init__(self, pipe: IO[bytes], on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._pipe = pipe
        self._on_data = on_data
        self._on_end = on_end
        self._open = True
        self._paused = True
        os.set_blocking(pipe.fileno(), False)
        self.resume()

    def pause(self) -> None:
        """Leave the rest in the pipe for now: the agent waits, nothing is lost."""
        if self._open and not self._paused:
            self._paused = True
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())

    def resume(self) -> None:
        if self._open and self._paused:
            self._paused = False
            asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._readable)

    def _readable(self) -> None:
        try:
            chunk = os.read(self._pipe.fileno(), CHUNK)
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


class Stderr:
    """Reads a pipe to its end; each line goes to `log` once. `tail` answers what was said last.

    It is always drained: 400 KB of it, unread, dead-lock an agent.
    """

    def __init__(self, pipe: IO[bytes], log: Callable[[str], None]) -> None:
        self._pipe = pipe
        self._log = log
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._part = b""
        self._skip = False  # inside a line that was longer than LINE
        self._open = True
        os.set_blocking(pipe.fileno(), False)
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._readable)

    def tail(self, lines: int = 5) -> str:
        """The last lines that are not empty, at most KEPT, joined by newlines; "" if nothing was said."""
        return "\n".join(list(self._lines)[-lines:])

    def _readable(self) -> bool:
        """Read once; whether more may be waiting."""
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
        if len(rest) > LINE:
            self._keep(rest)
            self._skip, rest = True, b""
        self._part = rest
        return True

    def _keep(self, line: bytes) -> None:
        if self._skip:
            return
        text = line[:LINE].decode(errors="replace").rstrip("\r")
        if text.strip():
            self._lines.append(text)
        self._log(text)

    def drain(self) -> None:
        """Take what is there already: the last words of a process that has just died."""
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
