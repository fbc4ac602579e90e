"""A table as text with its columns in line, for a block of one width of letters."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

GAP = "  "


def drawn(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the head. Columns are as wide as their widest cell."""
    count = max((len(row) for row in rows), default=0)
    whole = [[*(" ".join(cell.split()) for cell in row), *[""] * (count - len(row))] for row in rows]
    widths = [max(width(row[n]) for row in whole) for n in range(count)]
    lines = [
        GAP.join(cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)) for row in whole
    ]
    rule = GAP.join("-" * max(1, wide) for wide in widths)
    return "\n".join(line.rstrip() for line in (*lines[:1], rule, *lines[1:]))


def width(text: str) -> int:
    """Columns on a screen: East Asian wide letters and emoji take two, marks none."""
    return sum(
        0 if unicodedata.combining(char) or char in "\u200d\ufe0f" else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )
