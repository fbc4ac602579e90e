"""What the terminal draws of a text of many lines, and what of it is copied."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content

from semel.faces.terminal.app import ChatApp
from semel.faces.terminal.diffs import list_changes
from semel.faces.terminal.line_text import format_line
from semel.faces.terminal.rows import ItemWidget, make_widget

LINES = [f"name_{number} = {number}" for number in range(10_000)]
LONG = "\n".join(LINES)
ITEM = {"id": 1, "born": 1, "rev": 1, "title": "Edit", "text": ""}
CHANGE = {"path": "a.py", "oldText": "\n".join(LINES[:5000]), "newText": "\n".join(LINES[5000:])}
ROWS: dict[str, Any] = {
    "change": {**ITEM, "kind": "tool", "status": "done", "diffs": [CHANGE]},
    "output": {**ITEM, "kind": "tool", "status": "done", "text": LONG},
    "thought": {**ITEM, "kind": "thought", "text": LONG},
    "message": {"seq": 1, "born": 1, "rev": 1, "role": "user", "at": 1, "text": LONG},
}


class RowApp(App[None]):
    """One row of a conversation, in the terminal's style."""

    CSS_PATH = Path(str(sys.modules[ChatApp.__module__].__file__)).with_name(ChatApp.CSS_PATH)

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__()
        self.row = make_widget(row)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="log"):
            yield self.row

    @property
    def shown(self) -> list[str]:
        return [strip.text.strip(" ▁▂▃▄▅▆▇█") for strip in self.screen._compositor.render_strips()]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("row", ROWS)
async def test_of_a_text_of_10_000_lines_only_those_in_sight_are_drawn(
    row: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    render = Content.render
    monkeypatch.setattr(
        Content, "render", lambda self, *args, **named: drawn.append(str(self)) or render(self, *args, **named)
    )
    app = RowApp(ROWS[row])
    async with app.run_test(size=(width, 30)) as pilot:
        if isinstance(app.row, ItemWidget):
            await app.row.open(True)
        await pilot.pause()
        app.query_one(VerticalScroll).scroll_to(y=4000, animate=False)
        await pilot.pause()
        assert any("name_39" in line for line in app.shown) and app.row.region.height > 5000
        await pilot.resize_terminal(width + 10, 30)
        await pilot.pause()
        assert len(drawn) < 1000


async def test_the_mouse_selects_a_folded_line_and_the_one_below_as_they_were_written() -> None:
    long = " ".join(f"word{number}" for number in range(20))
    app = RowApp({**ROWS["message"], "text": f"first 漢字\n{long}\nlast line"})
    async with app.run_test(size=(60, 30)) as pilot:
        await pilot.pause()
        rows = {text: y for y, text in enumerate(app.shown)}
        first, last = rows["first 漢字"], rows["last line"]
        assert last - first > 2, "the long line is folded"
        await pilot.mouse_down(offset=(1 + 6, first))
        await pilot.hover(offset=(1 + 3, last))
        await pilot.mouse_up(offset=(1 + 3, last))
        assert app.screen.get_selected_text() == f"漢字\n{long}\nlast"


def test_the_last_line_of_a_long_change_has_colours_too() -> None:
    text = f"{LONG}\nclass Last:"
    last = list_changes([{"path": "a.py", "newText": text}])[-1]
    styles = [str(span.style) for span in format_line(last).spans]
    assert any("$text" in style and "success" not in style for style in styles)
