"""Output: for people on a terminal, plain in a pipe (tab-separated rows, no colours, no header)."""

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

STATES = {
    "sent": "green", "queued": "cyan", "sending": "cyan", "unknown": "yellow", "held": "yellow",
    "rejected": "red", "dropped": "dim", "idle": "dim", "running": "green", "waiting": "cyan",
    "said": "green", "echo": "cyan", "refused": "red", "quiet": "dim",
    "accepted": "green", "done": "green", "failed": "red", "failed later": "red", "cancelled": "yellow", "lost": "red",
    "online": "green", "starting": "dim", "offline": "yellow", "denied": "bold red",
}  # fmt: skip
"""How a state looks. Colour only repeats what the word says."""


def console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def beside() -> Console:
    """Stderr: on a terminal between words where a line is too long for it, else as it is."""
    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def complain(*lines: str) -> None:
    """An error, on stderr."""
    for line in lines:
        beside().print(Text(f"semel: {visible(line)}", "red"))


def remark(line: str) -> None:
    """Something beside the output proper, on stderr."""
    beside().print(Text(visible(line), "dim"))


def as_json(value: Any) -> None:
    print(escaped(json.dumps(value, ensure_ascii=False, indent=2)))


def rows(headings: Sequence[str], lines: Iterable[Sequence[object]], empty: str, whole: Collection[str] = ()) -> None:
    """A listing, a row a line. `empty` is what a person is told where there is nothing to list.

    `whole`: headings of columns that people copy from: they give way last, and are folded, not cut.
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
    """Widths of columns two blanks apart: the widest gives way first, and the kept ones once no other can."""
    widths = [min(width, room) for width in natural]
    over = sum(widths) + 2 * (len(widths) - 1) - room
    for only_kept, least in ((False, 5), (True, 8), (False, 1), (True, 1)):
        some = [at for at, keep in enumerate(kept) if keep is only_kept]
        while over > 0 and some and widths[widest := max(some, key=lambda at: widths[at])] > least:
            widths[widest] -= 1
            over -= 1
    return widths


def _cell(cell: str) -> Text:
    return Text(visible(" ".join(cell.split())), style=STATES.get(cell, ""))


def shown(text: str) -> str:
    """An agent's or a stranger's text: in a pipe as it is, on a terminal without power over it."""
    return visible(text) if sys.stdout.isatty() else text


def state(word: str) -> Text:
    return Text(word, style=STATES.get(word, ""))


def when(ms: int | float | None) -> str:
    """Milliseconds since the epoch as local time; today's without the date."""
    if ms is None:
        return ""
    at = time.localtime(ms / 1000)
    today = time.localtime()
    same = (at.tm_year, at.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if same else "%Y-%m-%d %H:%M:%S", at)
