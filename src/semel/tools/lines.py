"""Bytes in, whole lines out, in time that grows with the bytes and memory that does not."""

from __future__ import annotations

import re
from typing import NamedTuple

LIMIT = 8 << 20
"""Longest line in bytes, from the agent and to the gateway alike (the gateway's own bound)."""

OUTLINE = 4096
"""Longest outline in bytes."""


class TooLong(NamedTuple):
    """A line that was too long to keep. `outline`: the line as JSON, with 0 for each array or object in its outermost
    one; nothing usable where that is too long, too."""

    outline: bytes


class Lines:
    """Collects one stream's bytes into lines."""

    def __init__(self, limit: int = LIMIT):
        self._limit = limit
        self._held = bytearray()
        self._outline: _Outline | None = None  # of a line that is over the limit

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that `data` completes, without their ends."""
        lines: list[bytes | TooLong] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._take(data[start:end])
            lines.append(bytes(self._held) if self._outline is None else TooLong(self._outline.end()))
            self._held.clear()
            self._outline = None
            start = end + 1
        self._take(data[start:])
        return lines

    def _take(self, piece: bytes) -> None:
        if self._outline is not None:
            self._outline.feed(piece)
        elif len(self._held) + len(piece) > self._limit:
            self._outline = _Outline()
            self._outline.feed(bytes(self._held))
            self._outline.feed(piece)
            self._held.clear()
        else:
            self._held += piece


_MARK = re.compile(rb'["{}\[\]]')
_IN_STRING = re.compile(rb'["\\]')


class _Outline:
    """The outermost object of a JSON text, whose id may stand behind megabytes of arguments."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._depth = 0
        self._quoted = False
        self._escaped = False  # the next byte belongs to the backslash before it

    def feed(self, piece: bytes) -> None:
        at = start = 0  # what is searched, and what is not kept yet
        while at < len(piece):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_IN_STRING if self._quoted else _MARK).search(piece, at)
            if found is None:
                break
            at = found.end()
            mark = found[0]
            if mark == b"\\":
                self._escaped = True
            elif mark == b'"':
                self._quoted = not self._quoted
            elif mark in b"{[":
                if self._depth == 1:
                    self._keep(piece[start : at - 1] + b"0")
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == 1:
                    start = at
        if self._depth <= 1:
            self._keep(piece[start:])

    def _keep(self, piece: bytes) -> None:
        self._kept += piece[: OUTLINE - len(self._kept)]

    def end(self) -> bytes:
        return bytes(self._kept)
