"""Printing: tables and colours on a terminal; tab-separated rows without colours or header in a pipe."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from semel.text.visible import escaped, visible

STATE_STYLES = {
    "sent": "green", "queued": "cyan", "sending": "cyan", "unknown": "yellow", "held": "yellow",
    "rejected": "red", "dropped": "dim", "idle": "dim", "running": "green", "waiting": "cyan",
    "said": "green", "echo": "cyan", "refused": "red", "quiet": "dim",
    "accepted": "green", "done": "green", "failed": "red", "failed later": "red", "cancelled": "yellow", "lost": "red",
    "online": "green", "starting": "dim", "offline": "yellow", "denied": "bold red",
}  # fmt: skip
"""State -> rich style. The word alone carries the meaning; colour only repeats it."""


def console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def beside() -> Console:
    """A console on stderr that wraps long lines between words on a terminal, and leaves them whole elsewhere."""
    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def complain(*lines: str) -> None:
    """Print error lines to stderr."""
    for line in lines:
        beside().print(Text(f"semel: {visible(line)}", "red"))


def remark(line: str) -> None:
    """Print a remark to stderr, so that stdout holds only the result."""
    beside().print(Text(visible(line), "dim"))


def as_json(value: Any) -> None:
    print(escaped(json.dumps(value, ensure_ascii=False, indent=2)))


def rows(headings: Sequence[str], lines: Iterable[Sequence[object]], empty: str, whole: Collection[str] = ()) -> None:
    """Print a table, one row per line. On a terminal, `empty` is printed if there are no rows.

    `whole` holds the headings of columns that people copy from: they shrink last, and are wrapped instead of cut.
    """
    table = [["" if cell is None else str(cell) for cell in line] for line in lines]
    if not sys.stdout.isatty():
        for line in table:
            print("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in line))
    elif not table:
        remark(empty)
    else:
        out = Console(highlight=False)
        pretty = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        cells = [[_cell(cell) for cell in line] for line in table]
        natural = [max(cell_len(h), *(row[at].cell_len for row in cells)) for at, h in enumerate(headings)]
        kept = [heading in whole for heading in headings]
        for heading, width, keep in zip(headings, fit(natural, kept, out.width), kept, strict=True):
            pretty.add_column(heading, width=width, no_wrap=not keep, overflow="fold" if keep else "ellipsis")
        for row in cells:
            pretty.add_row(*row)
        out.print(pretty)


def fit(natural: Sequence[int], kept: Sequence[bool], room: int) -> list[int]:
    """Column widths that fit into `room`, with two blanks between columns. The widest shrinks first, kept ones last."""
    widths = [min(width, room) for width in natural]
    over = sum(widths) + 2 * (len(widths) - 1) - room
    for only_kept, least in ((False, 5), (True, 8), (False, 1), (True, 1)):
        some = [at for at, keep in enumerate(kept) if keep is only_kept]
        while over > 0 and some and widths[widest := max(some, key=lambda at: widths[at])] > least:
            widths[widest] -= 1
            over -= 1
    return widths


def _cell(cell: str) -> Text:
    return Text(visible(" ".join(cell.split())), style=STATE_STYLES.get(cell, ""))


def shown(text: str) -> str:
    """Untrusted text for stdout: unchanged in a pipe, with control characters made visible on a terminal."""
    return visible(text) if sys.stdout.isatty() else text


def state(word: str) -> Text:
    return Text(word, style=STATE_STYLES.get(word, ""))


def when(ms: int | float | None) -> str:
    """Milliseconds since the epoch as local time, without the date if it is today; "" for `None`."""
    if ms is None:
        return ""
    at = time.localtime(ms / 1000)
    today = time.localtime()
    same = (at.tm_year, at.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if same else "%Y-%m-%d %H:%M:%S", at)
