"""Read and write pipes between processes: split bytes into lines, write all bytes, copy a stderr that may go unread."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
import sys
import termios
from collections.abc import Iterator
from typing import NamedTuple

CHUNK_BYTES = 256 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024  # a longer line is not read as a message: it passes in pieces
MAX_STDERR_BYTES = 1024 * 1024  # kept while nobody reads; beyond that, bytes are dropped
SAFE_WRITE_BYTES = 512  # POSIX's least PIPE_BUF: a pipe that poll() calls writable takes as much without blocking


class Piece(NamedTuple):
    """A whole line with its newline, or (`is_line` is false) a part of a line that is too long."""

    data: bytes
    is_line: bool


class LineSplitter:
    """Splits chunks into lines. The pieces that it yields add up to the chunks."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self.is_inside_long_line = False

    def split_chunk(self, chunk: bytes) -> Iterator[Piece]:
        """Yield the lines that `chunk` completes, and the parts of lines that are too long."""
        start = 0
        while (end := chunk.find(b"\n", start) + 1) > 0:
            self._parts.append(chunk[start:end])
            is_line, self.is_inside_long_line = not self.is_inside_long_line, False
            yield Piece(self.take_rest(), is_line)
            start = end
        if start < len(chunk):
            self._parts.append(chunk[start:])
            self._size += len(chunk) - start
        if self._size > self._max_bytes or (self.is_inside_long_line and self._size):
            self.is_inside_long_line = True
            yield Piece(self.take_rest(), False)

    @property
    def has_rest(self) -> bool:
        """Whether a line has begun that no chunk has completed."""
        return self._size > 0 or self.is_inside_long_line

    def take_rest(self) -> bytes:
        """Return the bytes that belong to no piece yet, and forget them."""
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size = [], 0
        return data


def has_unread(file: int) -> bool:
    """Return whether a read of a file descriptor would return at once, with bytes or at its end."""
    poller = select.poll()
    poller.register(file, select.POLLIN)
    return bool(poller.poll(0))


def count_unread(file: int) -> int:
    """Return how many bytes the reader of a pipe or a socket has not read: of a socket perhaps more than there are.

    Returns 0 where the system does not say, as of a file or a terminal.
    """
    mode = os.fstat(file).st_mode
    question = termios.FIONREAD if stat.S_ISFIFO(mode) else termios.TIOCOUTQ if stat.S_ISSOCK(mode) else None
    if question is None:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(file, question, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def write_all(file: int, data: bytes) -> bool:
    """Write all bytes to a file descriptor, however long that takes. Returns False if its reader is gone."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(file, view) :]
    except BlockingIOError:  # whoever started us has made the descriptor non-blocking
        select.select([], [file], [])
        return write_all(file, bytes(view))
    except OSError:
        return False
    return True


def read_blocking(file: int) -> bytes:
    """Return the next bytes from a file descriptor, however long that takes; b"" at its end."""
    try:
        return os.read(file, CHUNK_BYTES)
    except BlockingIOError:  # whoever started us has made the descriptor non-blocking
        select.select([file], [], [])
        return read_blocking(file)
    except OSError:
        return b""


def pass_stderr(source: int, target: int) -> None:
    """Copy bytes until `source` ends. `source` is always read; if nobody reads `target`, bytes are dropped."""
    waiting, dropped, is_open = bytearray(), 0, True
    poller = select.poll()
    poller.register(source, select.POLLIN)
    while is_open or waiting:
        if waiting:
            poller.register(target, select.POLLOUT)
        for file, events in poller.poll(None if is_open else 1000) or [(-1, 0)]:
            if file == -1:
                return  # the end was not read within a second
            if file == source:
                chunk = _read_chunk(source)
                is_open = bool(chunk)
                kept = chunk[: max(0, MAX_STDERR_BYTES - len(waiting))]
                waiting += kept
                dropped += len(chunk) - len(kept)
                if not is_open:
                    poller.unregister(source)
            elif events & select.POLLOUT and write_all(target, bytes(waiting[:SAFE_WRITE_BYTES])):
                del waiting[:SAFE_WRITE_BYTES]
            else:
                waiting.clear()
        if not waiting:
            with contextlib.suppress(KeyError):
                poller.unregister(target)
            if dropped:
                waiting += b"semel: %d bytes of the agent's stderr were dropped, because nobody read it\n" % dropped
                dropped = 0


def _read_chunk(file: int) -> bytes:
    try:
        return os.read(file, CHUNK_BYTES)
    except OSError:
        return b""
