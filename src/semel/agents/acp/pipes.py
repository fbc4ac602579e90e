"""Non-blocking readers and writers for an agent's stdin, stdout and stderr, with bounded memory.

They work on raw file descriptors in the event loop, not on asyncio's streams. So reading can be paused, and all output
that a process has left in its pipe can be read synchronously after its exit.

A process may print as fast as it can (`yes`), and every process shares the event loop with all sessions. So a reader
whose chunk took long to handle reads smaller chunks, and leaves the loop to the others for as long as the chunk took.
The process blocks meanwhile, because its pipe is full.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections import deque
from collections.abc import Callable
from typing import IO

CHUNK_BYTES, MIN_CHUNK_BYTES = 256 * 1024, 1024
LONG_CHUNK_S = 0.01  # handling a chunk for longer is followed by a rest
MAX_REST_S = 0.05
MAX_UNSENT_BYTES = 64 * 1024 * 1024  # if an agent leaves more than this unread, it counts as dead
MAX_STDERR_LINE_BYTES = 4096  # the rest of a longer line is dropped
MAX_DRAINED_CHUNKS = 64
KEPT_STDERR_LINES = 20  # blank lines do not count
_STATES_ERROR = re.compile(
    r"\s*(?:Uncaught )?(?:[\w.]*(?:Error|Exception)(?: \[\w+\])?:|(?:error|fatal|panic)\b)", re.I
)


class StdinWriter:
    """An agent's stdin.

    `write` never blocks. Bytes that do not fit into the pipe are written once the agent has read.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._unsent = bytearray()
        self._open = True
        os.set_blocking(pipe.fileno(), False)

    @property
    def stuck(self) -> bool:
        """Whether the agent has stopped reading, so that more than MAX_UNSENT_BYTES bytes are unsent."""
        return len(self._unsent) > MAX_UNSENT_BYTES

    def write(self, data: bytes) -> None:
        """Write these bytes after all earlier ones. If the pipe is closed, drop them without an error."""
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
        """Write as many bytes as the pipe takes. Return True if nothing is left to write."""
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
        """Close the pipe. Closing twice is harmless."""
        if not self._open:
            return
        self._open = False
        with contextlib.suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().remove_writer(self._pipe.fileno())
        with contextlib.suppress(OSError):
            self._pipe.close()


class PipeReader:
    """An agent's stdout or stderr.

    It calls `on_data` with chunks of up to 256 KiB, then `on_end` once at end-of-file. It takes at most about half of
    the event loop's time.
    """

    def __init__(self, pipe: IO[bytes], on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._pipe = pipe
        self._on_data = on_data
        self._on_end = on_end
        self._open = True
        self._paused = True
        self._chunk_bytes = CHUNK_BYTES
        self._rest: asyncio.TimerHandle | None = None
        os.set_blocking(pipe.fileno(), False)
        self.resume()

    def pause(self) -> None:
        """Stop reading for now. Once the pipe is full, the agent blocks; nothing is lost."""
        if self._open and not self._paused:
            self._paused = True
            self._unwatch()

    def resume(self) -> None:
        if self._open and self._paused:
            self._paused = False
            self._watch()

    def _watch(self) -> None:
        if self._rest is None:
            asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._read_fairly)

    def _unwatch(self) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())

    def _read_fairly(self) -> None:
        """Read once. If handling the chunk took long, rest for as long, and read less the next time."""
        began = time.monotonic()
        self._read_chunk()
        took = time.monotonic() - began
        if took < LONG_CHUNK_S:
            self._chunk_bytes = min(self._chunk_bytes * 2, CHUNK_BYTES)
            return
        self._chunk_bytes = max(self._chunk_bytes // 2, MIN_CHUNK_BYTES)
        if self._open:
            self._unwatch()
            self._rest = asyncio.get_running_loop().call_later(min(took, MAX_REST_S), self._end_rest)

    def _end_rest(self) -> None:
        self._rest = None
        if self._open and not self._paused:
            self._watch()

    def _read_chunk(self) -> bool:
        """Read once. Return True if there may be more to read."""
        try:
            chunk = os.read(self._pipe.fileno(), self._chunk_bytes)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if chunk:
            self._on_data(chunk)
        else:
            self.close()
            self._on_end()
        return bool(chunk)

    def drain(self) -> None:
        """Read everything that is in the pipe now: the last output of a process that has just ended."""
        for _ in range(MAX_DRAINED_CHUNKS):
            if not self._open or not self._read_chunk():
                return

    def close(self) -> None:
        """Stop reading, without calling `on_end`. Closing twice is harmless."""
        if self._open:
            self.pause()
            self._open = False
            if self._rest is not None:
                self._rest.cancel()
            self._pipe.close()


class StderrReader:
    """An agent's stderr. Each line is passed to `log`; `tail` returns the last ones.

    Semel must always read it: an agent whose stderr pipe is full blocks for good.
    """

    def __init__(self, pipe: IO[bytes], log: Callable[[str], None]) -> None:
        self._log = log
        self._lines: deque[str] = deque(maxlen=KEPT_STDERR_LINES)
        self._partial_line = b""
        self._skips_rest = False  # until the end of an overlong line
        self._reader = PipeReader(pipe, self._split, self._end_line)

    def tail(self, lines: int = 5) -> str:
        """Return the last `lines` lines that are not blank (20 at most), joined by newlines; "" if there are none."""
        return "\n".join(list(self._lines)[-lines:])

    def error_line(self) -> str:
        """Return the last line that states an error, as in "Error: Cannot find module".

        If there is none, return the last line, or "". A crash of Node.js ends with the error's fields and the version,
        a crash of Python with the error itself.
        """
        return next((line for line in reversed(self._lines) if _STATES_ERROR.match(line)), self.tail(1)).strip()

    def drain(self) -> None:
        """Read everything that is in the pipe now."""
        self._reader.drain()

    def _split(self, chunk: bytes) -> None:
        *lines, partial = (self._partial_line + chunk).split(b"\n")
        for line in lines:
            self._keep_line(line)
            self._skips_rest = False
        if len(partial) > MAX_STDERR_LINE_BYTES:
            self._keep_line(partial)
            self._skips_rest, partial = True, b""
        self._partial_line = partial

    def _end_line(self) -> None:
        part, self._partial_line = self._partial_line, b""
        if part:
            self._keep_line(part)

    def _keep_line(self, line: bytes) -> None:
        if self._skips_rest:
            return
        text = line[:MAX_STDERR_LINE_BYTES].decode(errors="replace").rstrip("\r")
        if text.strip():
            self._lines.append(text)
        self._log(text)

    def close(self) -> None:
        """Stop reading. Closing twice is harmless."""
        self._reader.close()
        self._end_line()
