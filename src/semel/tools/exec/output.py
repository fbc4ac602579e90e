"""Record a command's output: all of it in a file, up to a limit, and its head and tail in memory for the report.

stdout and stderr are interleaved in the order of arrival. So that this never splits a UTF-8 character, an incomplete
character is held back until the rest arrives on its stream.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Largest output file. Output beyond it is still shown and counted, and its tail is in the report."""


class Output:
    """Collects chunks from several threads.

    head, tail   how many bytes of the beginning and of the end are kept in memory
    most         largest size of the file in bytes
    """

    def __init__(self, path: Path, head: int, tail: int, most: int = MAX_OUTPUT_BYTES) -> None:
        self.path = path
        self.total = 0
        self.kept = 0
        self.fault = ""  # why the file is incomplete; "" if it is not
        self._sizes = (head, tail)
        self._most = most
        self._head = bytearray()
        self._tail = bytearray()
        self._split: dict[str, bytes] = {}
        self._file: int | None = None
        self._ended = False
        self._lock = threading.Lock()

    def take(self, stream: str, chunk: bytes) -> None:
        """Add a chunk of one stream; an empty chunk marks the stream's end."""
        with self._lock:
            if self._ended:
                return
            data = self._split.pop(stream, b"") + chunk
            if chunk and (open_ := count_unfinished_bytes(data)):
                self._split[stream] = data[-open_:]
                data = data[:-open_]
            if data:
                self._add(data)

    def end(self) -> None:
        """Close the file; later chunks are ignored."""
        for stream in list(self._split):
            self.take(stream, b"")
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            self._ended = True

    def piece(self) -> tuple[bytes, bytes]:
        """(head, tail): together the complete output, or with a gap between them."""
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


def drop_partial_start(data: bytes) -> bytes:
    """Drop leading bytes that are the rest of a character whose beginning is missing."""
    return data[next((n for n, byte in enumerate(data[:4]) if not 0x80 <= byte < 0xC0), 0) :]


def count_unfinished_bytes(data: bytes) -> int:
    """The number of bytes at the end that belong to an incomplete UTF-8 character: 0 to 3 (RFC 3629)."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < length else 0
        if byte < 0x80:
            return 0
    return 0
