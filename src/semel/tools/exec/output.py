"""What a command printed: all of it in a file, as far as there is room, and a piece of it in memory for the report.

Bytes of stdout and stderr are kept in the order they came. A character is never cut in two by it: the first
bytes of one wait for the rest.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

MOST = 64 * 1024 * 1024
"""Bytes that the file may have. What comes after is shown and counted, and its end is in the report."""


class Output:
    """Takes chunks from several threads. `head` and `tail` are the bytes that are at hand for the report."""

    def __init__(self, path: Path, head: int, tail: int, most: int = MOST) -> None:
        self.path = path
        self.total = 0
        self.kept = 0
        self.fault = ""  # why the file does not hold everything
        self._sizes = (head, tail)
        self._most = most
        self._head = bytearray()
        self._tail = bytearray()
        self._split: dict[str, bytes] = {}
        self._file: int | None = None
        self._ended = False
        self._lock = threading.Lock()

    def take(self, stream: str, chunk: bytes) -> None:
        """What came on one stream; an empty chunk is its end."""
        with self._lock:
            if self._ended:
                return
            data = self._split.pop(stream, b"") + chunk
            if chunk and (open_ := unfinished(data)):
                self._split[stream] = data[-open_:]
                data = data[:-open_]
            if data:
                self._add(data)

    def end(self) -> None:
        """No more comes. What is in the file is all that will be."""
        for stream in list(self._split):
            self.take(stream, b"")
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            self._ended = True

    def piece(self) -> tuple[bytes, bytes]:
        """(first bytes, last bytes); together all of it, or what is between them is missing."""
        with self._lock:
            return bytes(self._head), bytes(self._tail[-self._sizes[1] :]) if self._sizes[1] else b""

    def _add(self, data: bytes) -> None:
        self.total += len(data)
        head, tail = self._sizes
        room = head - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 2 * tail:
            del self._tail[:-tail]
        self._keep(data)

    def _keep(self, data: bytes) -> None:
        if self.fault:
            return
        if self.kept + len(data) > self._most:
            data = data[: self._most - self.kept]
            self.fault = f"{self._most:,} bytes are the most that is kept"
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                self._file = os.open(self.path, flags, 0o600)
            while data:
                written = os.write(self._file, data)
                self.kept += written
                data = data[written:]
        except OSError as error:
            self.fault = error.strerror or str(error)


def from_character(data: bytes) -> bytes:
    """Without the last bytes of a character whose beginning is not there."""
    return data[next((n for n, byte in enumerate(data[:4]) if not 0x80 <= byte < 0xC0), 0) :]


def unfinished(data: bytes) -> int:
    """How many bytes at the end begin a UTF-8 character that is not complete: 0 to 3 (RFC 3629)."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < length else 0
        if byte < 0x80:
            return 0
    return 0
