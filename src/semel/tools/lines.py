"""Split a byte stream into lines, in linear time and bounded memory.

A line above the limit is not kept. But its JSON-RPC id is needed to answer it with an error, and the id may come after
megabytes of arguments. So an outline is kept instead: the outermost JSON object without its nested values.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_LINE_BYTES = 8 << 20
"""Longest line from the agent, in bytes; requests to the gateway have the same limit."""

MAX_OUTLINE_BYTES = 4096
"""Longest outline in bytes."""


class OverlongLine(NamedTuple):
    """A line above the limit. `outline`: its JSON with 0 in place of each nested array or object, cut off at
    MAX_OUTLINE_BYTES. An outline that was cut off cannot be parsed."""

    outline: bytes


class LineBuffer:
    """Splits one stream into lines; an overlong line is replaced by its outline."""

    def __init__(self, limit: int = MAX_LINE_BYTES):
        self._limit = limit
        self._partial_line = bytearray()
        self._outline: _Outline | None = None  # of the current line, if that is above the limit

    def feed(self, data: bytes) -> list[bytes | OverlongLine]:
        """Add the next bytes of the stream. Returns the lines that they complete, without their newlines."""
        lines: list[bytes | OverlongLine] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add_piece(data[start:end])
            lines.append(bytes(self._partial_line) if self._outline is None else OverlongLine(self._outline.result()))
            self._partial_line.clear()
            self._outline = None
            start = end + 1
        self._add_piece(data[start:])
        return lines

    def _add_piece(self, piece: bytes) -> None:
        if self._outline is not None:
            self._outline.feed(piece)
        elif len(self._partial_line) + len(piece) > self._limit:
            self._outline = _Outline()
            self._outline.feed(bytes(self._partial_line))
            self._outline.feed(piece)
            self._partial_line.clear()
        else:
            self._partial_line += piece


_JSON_STRUCTURE = re.compile(rb'["{}\[\]]')
_IN_STRING = re.compile(rb'["\\]')


class _Outline:
    """Extracts the outermost object of a JSON text, fed piece by piece, with 0 for each nested value."""

    def __init__(self) -> None:
        self._outline = bytearray()
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the previous byte was a backslash in a string

    def feed(self, piece: bytes) -> None:
        position = kept_from = 0  # where to search next; first byte not yet kept
        while position < len(piece):
            if self._escaped:
                self._escaped = False
                position += 1
                continue
            match = (_IN_STRING if self._in_string else _JSON_STRUCTURE).search(piece, position)
            if match is None:
                break
            position = match.end()
            mark = match[0]
            if mark == b"\\":
                self._escaped = True
            elif mark == b'"':
                self._in_string = not self._in_string
            elif mark in b"{[":
                if self._depth == 1:
                    self._append(piece[kept_from : position - 1] + b"0")
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == 1:
                    kept_from = position
        if self._depth <= 1:
            self._append(piece[kept_from:])

    def _append(self, piece: bytes) -> None:
        self._outline += piece[: MAX_OUTLINE_BYTES - len(self._outline)]

    def result(self) -> bytes:
        return bytes(self._outline)
