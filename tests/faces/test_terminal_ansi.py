"""Tool output in the terminal: its colours, and every character of it."""

from __future__ import annotations

import random
import re

from semel.acp_stream.display import render_coloured
from semel.faces.terminal.ansi_text import style_output
from semel.faces.terminal.rows import format_item, format_item_head
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


def test_an_overwritten_line_is_shown_as_on_a_terminal_in_its_last_colour() -> None:
    shown = style_output(render_coloured("\x1b[31m10 %\r\x1b[32m100 %\r\n\x1b[2Kplain\r\n\x1b[0mend"))
    assert shown.plain == "100 %\nplain\nend"
    assert [(span.start, span.end, str(span.style)) for span in shown.spans] == [(0, 12, "color(2)")]
