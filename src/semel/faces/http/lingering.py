"""Close a connection so that the client can still read its last answer (lingering close, RFC 9112, 9.6).

A client that is still sending a body reads the answer only afterwards. If the server closes the connection with bytes
unread, the kernel answers further bytes with a reset, and the client sees a broken pipe instead of the answer. So the
server closes only its own half and discards what still arrives, up to a limit.
"""

from __future__ import annotations

import asyncio
from typing import Any

MAX_DISCARDED_BYTES = 256 * 1024 * 1024
"""Bytes discarded of a refused body before the connection is closed. The time limit is `PATIENCE["rest"]`."""


class LingeringTransport:
    """Wraps a transport and adds a half-close (`close_half`). Everything else is delegated to the transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.lingers = False
        self._discarded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def close_half(self) -> None:
        """Close the writing half. From now on, received data belongs to `discard`."""
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
