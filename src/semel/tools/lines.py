"""Bytes in, whole lines out, in time that grows with the bytes and memory that does not."""

from __future__ import annotations

LIMIT = 8 << 20
"""Longest line in bytes, from the agent and to the gateway alike (the gateway's own bound)."""


class Lines:
    """Collects one stream's bytes into lines."""

    def __init__(self, limit: int = LIMIT):
        self._limit = limit
        self._held = bytearray()
        self._over = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that `data` completes, without their ends. None stands for one that was too long to
        keep."""
        lines: list[bytes | None] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._take(data[start:end])
            lines.append(None if self._over else bytes(self._held))
            self._held.clear()
            self._over = False
            start = end + 1
        self._take(data[start:])
        return lines

    def _take(self, piece: bytes) -> None:
        if len(self._held) + len(piece) > self._limit:
            self._held.clear()
            self._over = True
        elif not self._over:
            self._held += piece
