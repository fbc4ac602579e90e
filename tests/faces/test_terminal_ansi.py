"""Tool output in the terminal: its colours, and every character of it."""

from __future__ import annotations

import random
import re
from itertools import groupby
from typing import Any

from textual.app import App, ComposeResult

from semel.acp_stream.display import render_coloured, render_terminal
from semel.faces.terminal.ansi_text import style_output
from semel.faces.terminal.rows import ItemWidget, format_item, format_item_head, make_widget
from semel.text.visible import visible

PIECES = [
    "text", "\n", "\x1b[31m", "\x1b[0m", "\x1b[1;38;5;200m", "\x1b[38;2;1;2;3m", "\x1b[8m", "\x1b[30;40m", "\x1b[7m",
    "\x1b[2J", "\x1b]8;;http://a\x1b\\", "\x1b[", "\x1b[31", "\r", "\x9b32m", "\x1b[999999;;:m", "\x08", "[b]x[/b]",
    "\u202e",
]  # fmt: skip


def test_no_character_is_lost_and_nothing_but_styles_is_obeyed() -> None:
    rng = random.Random(7)
    for _ in range(300):
        text = "".join(rng.choices(PIECES, k=20))
        shown = style_output(text)
        assert shown.plain == "".join(visible(part) for part in re.split(r"\x1b\[[0-9;:]*m", text))
        for span in shown.spans:
            style = span.style
            assert not isinstance(style, str) and not (style.conceal or style.bgcolor or style.reverse or style.link)
            assert style.color is None or 0 < (style.color.number or 0) < 16


def test_colours_of_a_tools_output_are_shown_also_where_it_is_shortened() -> None:
    lines = "\n".join(f"\x1b[32mok {number}\x1b[0m" for number in range(20))
    item = {"kind": "tool", "status": "running", "text": lines}
    shown = format_item(item, opened=False)
    assert shown.plain.split("\n") == ["… 14 lines above (ctrl+o)", *(f"ok {number}" for number in range(14, 20))]
    assert {str(span.style) for span in shown.spans} == {"color(2)", "dim"}
    assert format_item(item).plain.count("ok") == 20


def test_an_output_says_what_is_missing_in_it_and_only_that() -> None:
    item = {"kind": "tool", "status": "done", "text": "head", "tail": " and tail\n"}
    assert (format_item(item).plain, format_item_head(item).plain) == ("head and tail", "● a tool  1 line")
    item["gap"] = 1234
    assert format_item(item).plain == "head\n… 1,234 characters are not shown here …\n and tail"
    assert format_item_head(item).plain == "● a tool  1,248 characters"
    cut = {"kind": "tool", "status": "failed", "text": "head", "truncated": True}
    assert format_item(cut).plain == "head\n… cut off by the agent …"


def list_colours(text: str) -> list[tuple[str, str]]:
    """The runs of one style in an output, each with its text."""
    shown = style_output(render_coloured(text))
    styles = ["none"] * len(shown.plain)
    for span in shown.spans:
        styles[span.start : span.end] = [str(span.style)] * (span.end - span.start)
    runs = groupby(zip(shown.plain, styles, strict=True), key=lambda pair: pair[1])
    return [("".join(character for character, _ in run), style) for style, run in runs]


def test_an_overwritten_line_is_shown_as_on_a_terminal_each_character_in_its_colour() -> None:
    green, red = "color(2)", "color(1)"
    bar = "\x1b[31m10 %\x1b[0m\r\x1b[32m100\x1b[0m %\r\nplain"
    assert list_colours(bar) == [("100", green), (" %\nplain", "none")]
    assert list_colours("\x1b[31m10 % left\r\x1b[32m20") == [("20", green), (" % left", red)]
    assert list_colours("\x1b[31mred\n1\r2\x1b[32m3\nend") == [("red\n2", red), ("3\nend", green)]
    assert list_colours("\x1b[31ma\x1b[2Kb\r\n\x1b[0mend") == [(" ", "none"), ("b\n", red), ("end", "none")]


def test_colours_of_overwritten_lines_change_no_character() -> None:
    rng = random.Random(11)
    for _ in range(300):
        text = "".join(rng.choices([*PIECES, "\x1b[K", "\x1b[3D"], k=20))
        assert re.sub(r"\x1b\[[0-9;:]*m", "", render_coloured(text)) == render_terminal(text)


class FailedCallApp(App[None]):
    """The row of a failed call with a coloured output, and how often it asked for the whole output."""

    requests = 0

    def compose(self) -> ComposeResult:
        item: dict[str, Any] = {"id": 1, "born": 1, "rev": 1, "kind": "tool", "title": "make", "status": "failed"}
        yield make_widget({**item, "text": "error", "coloured": True})

    def on_item_widget_output_needed(self) -> None:
        self.requests += 1


async def test_an_output_that_cannot_be_had_is_asked_for_again_only_when_its_row_changes_or_is_opened() -> None:
    app = FailedCallApp()
    async with app.run_test() as pilot:
        await pilot.pause()
        row = app.query_one(ItemWidget)
        for _ in range(3):
            await row.draw()
        await pilot.pause()
        assert app.requests == 1
        row.data = {**row.data, "rev": 2}
        await row.draw()
        await pilot.pause()
        assert app.requests == 2
        await row.open(True)
        await pilot.pause()
        assert app.requests == 3
