"""Output: for people on a terminal, plain in a pipe (tab-separated rows, no colours, no header)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semel.faces.safe import visible

STATES = {
    "sent": "green", "queued": "cyan", "sending": "cyan", "unknown": "yellow", "held": "yellow",
    "rejected": "red", "dropped": "dim", "idle": "dim", "running": "green", "waiting": "cyan",
    "said": "green", "echo": "cyan", "refused": "red", "quiet": "dim",
    "accepted": "green", "done": "green", "failed": "red", "cancelled": "yellow", "lost": "red",
}  # fmt: skip
"""How a state looks. Colour only repeats what the word says."""


def console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def complain(*lines: str) -> None:
    """An error, on stderr."""
    for line in lines:
        Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"semel: {visible(line)}", "red"))


def remark(line: str) -> None:
    """Something beside the output proper, on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(visible(line), "dim"))


def as_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def rows(headings: Sequence[str], lines: Iterable[Sequence[object]], empty: str) -> None:
    """A listing. `empty` is what a person is told where there is nothing to list."""
    table = [["" if cell is None else str(cell) for cell in line] for line in lines]
    if not sys.stdout.isatty():
        for line in table:
            print("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in line))
    elif not table:
        remark(empty)
    else:
        pretty = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        for heading in headings:
            pretty.add_column(heading, no_wrap=heading != headings[-1], overflow="ellipsis")
        for line in table:
            pretty.add_row(*(_cell(cell) for cell in line))
        Console(highlight=False).print(pretty)


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


def shorten(text: str, most: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
