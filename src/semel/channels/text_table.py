"""Draw a table as text with aligned columns, for platforms that show none."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

COLUMN_GAP = "  "


def draw_table(rows: Sequence[Sequence[str]]) -> str:
    """Draw a table as text. The first row is the head; a rule separates it from the rest."""
    count = max((len(row) for row in rows), default=0)
    full_rows = [[*(" ".join(cell.split()) for cell in row), *[""] * (count - len(row))] for row in rows]
    widths = [max(display_width(row[n]) for row in full_rows) for n in range(count)]
    lines = [
        COLUMN_GAP.join(
            cell + " " * (column_width - display_width(cell)) for cell, column_width in zip(row, widths, strict=True)
        )
        for row in full_rows
    ]
    rule = COLUMN_GAP.join("-" * max(1, width) for width in widths)
    return "\n".join(line.rstrip() for line in (*lines[:1], rule, *lines[1:]))


def display_width(text: str) -> int:
    """Return the width of a text in columns: East Asian wide letters and emoji take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) or char in "\u200d\ufe0f" else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )
