"""Draw a table as text with aligned columns, for a monospaced block."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

GAP = "  "


def drawn(rows: Sequence[Sequence[str]]) -> str:
    """The table as text. The first row is the head; a rule separates it from the rest."""
    count = max((len(row) for row in rows), default=0)
    whole = [[*(" ".join(cell.split()) for cell in row), *[""] * (count - len(row))] for row in rows]
    widths = [max(width(row[n]) for row in whole) for n in range(count)]
    lines = [
        GAP.join(cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)) for row in whole
    ]
    rule = GAP.join("-" * max(1, wide) for wide in widths)
    return "\n".join(line.rstrip() for line in (*lines[:1], rule, *lines[1:]))


def width(text: str) -> int:
    """The width of a text in screen columns: East Asian wide letters and emoji take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) or char in "\u200d\ufe0f" else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )
