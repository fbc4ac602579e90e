"""Code fences, as CommonMark defines them (spec 0.31, section 4.5).

An opening line has at most three blanks, three or more backticks or tildes, and an info string; after backticks, the
info string contains no backtick. A closing line has at least as many of the same character and nothing else. A fence
without a closing line runs to the end of the text. A line ends at LF, CR or CR LF. Fences inside block quotes and list
items are not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_OPEN = re.compile(r" {0,3}(?P<marker>`{3,}(?=[^`]*\Z)|~{3,})(?P<info>.*)", re.DOTALL)


@dataclass(frozen=True)
class Fence:
    """Offsets of one fence in its text, in code points.

    `lo`: its first marker character. `inner`: the beginning of its content. `close`: the beginning of its closing line
    (`hi` if it has none). `hi`: the end of its closing marker (or of the text).
    """

    lo: int
    inner: int
    close: int
    hi: int
    marker: str
    info: str


def opens(line: str) -> re.Match[str] | None:
    """Match the opening line of a fence (without its line end): groups `marker` and `info`."""
    return _OPEN.fullmatch(line)


def closes(line: str, marker: str) -> int | None:
    """The end of the closing marker in a line (without its line end); None if the line does not close the fence."""
    body = line.rstrip(" \t")
    bare = body.lstrip(" ")
    if len(body) - len(bare) > 3 or len(bare) < len(marker) or bare.strip(marker[0]):
        return None
    return len(body)


def fences(text: str) -> Iterator[Fence]:
    """Every fence of the text, in order."""
    lo = inner = 0
    marker = info = ""
    for at, line in _lines(text):
        if not marker:
            if found := opens(line):
                marker, info = found["marker"], found["info"]
                lo, inner = at + found.start("marker"), _next_line(text, at + len(line))
        elif (end := closes(line, marker)) is not None:
            yield Fence(lo, inner, at, at + end, marker, info)
            marker = ""
    if marker:
        yield Fence(lo, inner, len(text), len(text), marker, info)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    if "```" not in text and "~~~" not in text:
        return
    for found in LINE.finditer(text):
        yield found.start(), found[0].rstrip("\r\n")


def _next_line(text: str, at: int) -> int:
    if text.startswith("\r\n", at):
        return at + 2
    return min(at + 1, len(text))
