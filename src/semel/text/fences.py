"""Code fences, as CommonMark has them (spec 0.31, section 4.5).

A fence opens on a line of its own: at most three blanks, then three or more backticks or tildes. What follows on
that line is its info string; after backticks it holds no backtick. It closes at a line with at least as many of
the same character and nothing else. One that never closes runs to the end of the text. A line ends at LF, CR or
CR LF. Fences inside block quotes and list items are not followed.
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

    `lo` is its first marker character, `hi` the end of its closing marker (or of the text). `inner` is where its
    content begins, `close` where its closing line begins (`hi` where nothing closes it).
    """

    lo: int
    inner: int
    close: int
    hi: int
    marker: str
    info: str


def opens(line: str) -> re.Match[str] | None:
    """The match of an opening line (without its line end): groups `marker` and `info`."""
    return _OPEN.fullmatch(line)


def closes(line: str, marker: str) -> int | None:
    """Where the closing marker ends in this line (without its line end), or None if it closes nothing."""
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
