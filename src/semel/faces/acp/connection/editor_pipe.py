"""The pipes to an editor, for an event loop: a thread reads lines from it, and another one writes lines to it.

The descriptors are the editor's, perhaps shared, and may be anything. So they are not made non-blocking
(docs/decisions/editor-alone.md). If the editor does not read, lines wait here, up to MAX_WAITING_BYTES; the caller asks
`check_full` before it writes more, and is told when there is room again.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable

from semel.faces.acp.pipes import LineSplitter, count_unread, has_unread, read_blocking, write_all

MAX_WAITING_BYTES = 8 * 1024 * 1024
ROOM_BYTES = 1024 * 1024  # waiting bytes below which there is room again
QUIET_S = 0.1  # without anything to read, until all that the editor has written counts as read
QUIET_POLL_S = 0.02
END_GRACE_S = 0.5  # how long the last lines have to be read by an editor that closed its end


class EditorPipe:
    """Lines from and to the editor at the other end of two descriptors. `on_room`: called in the event loop."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self._stdin, self._stdout = stdin, stdout
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._lines_read = self._lines_yielded = 0
        self._splitter = LineSplitter()
        self._stop_receiver, self._stop_sender = os.pipe()  # closing the sender ends the reader
        self._has_ended = False  # the editor has closed its end of stdin, and all that it wrote was read
        self._changed = threading.Condition()  # guards what follows
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self.written_bytes = 0  # read or not
        self._was_full = False
        self._is_closed = False
        self.on_room: Callable[[], None] = lambda: None
        self._reader = threading.Thread(target=self._read, name="from the editor", daemon=True)
        self._reader.start()
        self._writer = threading.Thread(target=self._write, name="to the editor", daemon=True)
        self._writer.start()

    def __repr__(self) -> str:
        return f"<EditorPipe {self._waiting_bytes} bytes wait>"

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines from the editor until it closes its end of either pipe."""
        while (line := await self._lines.get()) is not None:
            self._lines_yielded += 1
            yield line
        while not self._lines.empty():  # those that were read before it was known that nobody reads what we write
            if (line := self._lines.get_nowait()) is not None:
                self._lines_yielded += 1
                yield line

    @property
    def has_unread_lines(self) -> bool:
        """Whether the editor has written what `lines` has not yielded: lines, or the beginning of one."""
        is_behind = self._lines_read > self._lines_yielded
        return is_behind or (not self._has_ended and (self._splitter.has_rest or has_unread(self._stdin)))

    async def wait_until_quiet(self) -> None:
        """Wait until the editor has written nothing for a moment, and `lines` has yielded what it wrote before."""
        quiet_s = 0.0
        while quiet_s < QUIET_S and not (self._has_ended and not self.has_unread_lines):
            await asyncio.sleep(QUIET_POLL_S)
            quiet_s = 0.0 if self.has_unread_lines else quiet_s + QUIET_POLL_S

    def check_full(self) -> bool:
        """Return whether so much waits for the editor that no more should be written now.

        If so, `on_room` is called once there is room again.
        """
        with self._changed:  # otherwise the writer may see between the two lines that there is room, and tell nobody
            if self._waiting_bytes > MAX_WAITING_BYTES:
                self._was_full = True
            return self._was_full

    @property
    def bytes_read_by_editor(self) -> int:
        """How many of the written bytes the editor has read at least."""
        with self._changed:
            return self.written_bytes - self._waiting_bytes - count_unread(self._stdout)

    @property
    def waiting_bytes(self) -> int:
        """How much waits for the editor."""
        return self._waiting_bytes

    def write(self, lines: Iterable[bytes]) -> None:
        """Write lines, in order and without waiting. Each ends with a newline."""
        with self._changed:
            for line in lines:
                self._waiting.append(line)
                self._waiting_bytes += len(line)
                self.written_bytes += len(line)
            self._changed.notify_all()

    def close(self) -> None:
        """Wait a moment until the last lines are written."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._writer.join(END_GRACE_S)

    def stop_reading(self) -> bool:
        """Close our end of stdin: what the editor writes from now on fails, instead of being lost.

        Returns whether the editor had already written something that `lines` has not yielded.
        """
        os.close(self._stop_sender)
        self._reader.join(END_GRACE_S)
        has_unread_lines = self.has_unread_lines
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, self._stdin)
        os.close(null)
        return has_unread_lines

    # ---- the threads

    def _read(self) -> None:
        splitter, poller = self._splitter, select.poll()
        poller.register(self._stdin, select.POLLIN)
        poller.register(self._stop_receiver, select.POLLIN)
        while self._stdin in [file for file, _ in poller.poll()]:
            if not (chunk := read_blocking(self._stdin)):
                if not splitter.is_inside_long_line and (rest := splitter.take_rest()):
                    self._put_line(rest)  # the last line, without its newline
                self._has_ended = True
                break
            for piece in splitter.split_chunk(chunk):
                if piece.is_line:
                    self._put_line(piece.data)
        self._call(self._lines.put_nowait, None)

    def _put_line(self, line: bytes) -> None:
        self._lines_read += 1
        self._call(self._lines.put_nowait, line)

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                data = b"".join(self._waiting)
                self._waiting.clear()
            if not data:
                return
            if not write_all(self._stdout, data):
                self._call(self._lines.put_nowait, None)
                return
            with self._changed:
                self._waiting_bytes -= len(data)
                has_room = self._was_full and self._waiting_bytes < ROOM_BYTES
                self._was_full = self._was_full and not has_room
            if has_room:
                self._call(self.on_room)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop has ended
            return
