"""End a connection so that its last answer is read.

A caller that still sends a body when its answer is ready reads that answer only later. If the connection is closed
with bytes unread, the kernel answers the next of them with a reset, and the caller sees a broken pipe in place of the
answer (RFC 9112, 9.6). So our half is closed behind the answer, and what still comes is thrown away, for a while.
"""

from __future__ import annotations

import asyncio
from typing import Any

MAX_DISCARDED_BYTES = 256 * 1024 * 1024
"""Of a body that was refused. How long that may take: `patience`, "rest"."""


class LingeringTransport:
    """A transport whose `close` leaves the other side the time to read. Everything else is the transport's own."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.lingers = False
        self._discarded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def close_half(self) -> None:
        """No more is written; what comes goes to `discard`."""
        if self.is_closing() or not self._transport.can_write_eof():
            self._transport.close()
            return
        self.lingers = True
        self._transport.write_eof()
        self._transport.resume_reading()

    def discard(self, data: bytes) -> None:
        """Drop bytes that came after the last answer; close the connection when there are too many."""
        self._discarded += len(data)
        if self._discarded > MAX_DISCARDED_BYTES:
            self._transport.close()
