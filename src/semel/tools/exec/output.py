"""Record a command's output: all of it in a file, up to a limit, and its head and tail in memory for the report.

stdout and stderr are interleaved in the order of arrival. So that this never splits a UTF-8 character, an incomplete
character is held back until the rest arrives on its stream.
"""

from __future__ import annotations

import codecs
import os
import threading
from pathlib import Path

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Largest output file. Output beyond it is still shown and counted, and its tail is in the report."""


class OutputRecorder:
    """Records a command's output, which several threads deliver in chunks.

    head_bytes, tail_bytes   how much of the beginning and of the end is kept in memory
    max_bytes                largest size of the file
    """

    def __init__(self, path: Path, head_bytes: int, tail_bytes: int, max_bytes: int = MAX_OUTPUT_BYTES) -> None:
        self.path = path
        self.total_bytes = 0
        self.stored_bytes = 0
        self.incomplete_reason = ""  # why the file is incomplete; "" if it is complete
        self._sizes = (head_bytes, tail_bytes)
        self._max_bytes = max_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._unfinished: dict[str, bytes] = {}
        self._file: int | None = None
        self._ended = False
        self._lock = threading.Lock()

    def take(self, stream: str, chunk: bytes) -> None:
        """Add a chunk of one stream; an empty chunk marks the stream's end."""
        with self._lock:
            if self._ended:
                return
            data = self._unfinished.pop(stream, b"") + chunk
            if chunk and (unfinished := count_unfinished_bytes(data)):
                self._unfinished[stream] = data[-unfinished:]
                data = data[:-unfinished]
            if data:
                self._record(data)

    def end(self) -> None:
        """Close the file; later chunks are ignored."""
        for stream in list(self._unfinished):
            self.take(stream, b"")
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            self._ended = True

    def head_and_tail(self) -> tuple[bytes, bytes]:
        """Return (head, tail) of the output. If it was longer than both together, a gap lies between them."""
        with self._lock:
            return bytes(self._head), bytes(self._tail[-self._sizes[1] :]) if self._sizes[1] else b""

    def _record(self, data: bytes) -> None:
        self.total_bytes += len(data)
        head_bytes, tail_bytes = self._sizes
        room = head_bytes - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 2 * tail_bytes:
            del self._tail[:-tail_bytes]
        self._store(data)

    def _store(self, data: bytes) -> None:
        if self.incomplete_reason:
            return
        if self.stored_bytes + len(data) > self._max_bytes:
            data = data[: self._max_bytes - self.stored_bytes]
            self.incomplete_reason = f"{self._max_bytes:,} bytes is the limit"
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                self._file = os.open(self.path, flags, 0o600)
            while data:
                written = os.write(self._file, data)
                self.stored_bytes += written
                data = data[written:]
        except OSError as error:
            self.incomplete_reason = error.strerror or str(error)


def drop_partial_start(data: bytes) -> bytes:
    """Drop leading bytes that are the rest of a character whose beginning is missing."""
    return data[next((n for n, byte in enumerate(data[:4]) if not 0x80 <= byte < 0xC0), 0) :]


def count_unfinished_bytes(data: bytes) -> int:
    """Return the number of bytes at the end that belong to an incomplete UTF-8 character: 0 to 3."""
    _, decoded_bytes = codecs.utf_8_decode(data, "replace", False)
    return len(data) - decoded_bytes
