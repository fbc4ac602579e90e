"""The first line of the screen once several sessions are open: their names, and what each of them needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text
from textual.widgets import Static

MAX_NAME_CELLS = 20
MIN_NAME_CELLS = 4


@dataclass(frozen=True)
class Tab:
    """An open session. `sign`: "?" if it needs the person, "◐" while a turn runs, "●" if it has news, else ""."""

    name: str
    sign: str = ""
    is_current: bool = False


class TabLine(Static):
    """A click on a name shows its session."""

    def show(self, tabs: Sequence[Tab]) -> None:
        self.display = len(tabs) > 1
        self.update(format_tabs(tabs, self.app.size.width))


def format_tabs(tabs: Sequence[Tab], width: int) -> Text:
    """Format tabs as one line. If they do not fit in `width` cells, their names are shortened."""
    cells = max(min(MAX_NAME_CELLS, (width - 1) // max(len(tabs), 1) - 5), MIN_NAME_CELLS)
    line = Text(" ", no_wrap=True, end="")
    for number, tab in enumerate(tabs):
        name = tab.name if cell_len(tab.name) <= cells else f"{set_cell_size(tab.name, cells - 1)}…"
        style = Style(bold=tab.is_current, reverse=tab.is_current, meta={"@click": f"app.show_tab({number})"})
        line.append(f" {name} ", style)
        line.append(f"{tab.sign} ", Style(bold=tab.sign == "?", color="yellow" if tab.sign == "?" else "cyan"))
    return line
