"""Markdown as lines with formatting codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.channels.irc.render import render

EXAMPLES = [
    ("plain text", ["plain text"]),
    (
        "**strong** and *soft* and ~~gone~~ and `code`",
        ["\x02strong\x02 and \x1dsoft\x1d and \x1egone\x1e and \x11code"],
    ),
    ("# A heading\n\ntext", ["\x02A heading", "text"]),
    ("**two\nlines**", ["\x02two", "\x02lines"]),
    ("[name](https://example.org/x)", ["name (https://example.org/x)"]),
    ("> a\n> b\n\nc", ["> a", "> b", "c"]),
    ("```py\nx = 1\n\ny = 2\n```", ["x = 1", "y = 2"]),
    ("| a | bb |\n|---|---|\n| 1 | 2 |", ["a  bb", "-  --", "1  2"]),
    ("\x01VERSION\x01 and \x02", ["␁VERSION␁ and ␂"]),
    ("   ", []),
]


@pytest.mark.parametrize(("text", "lines"), EXAMPLES)
def test_markdown_becomes_lines(text: str, lines: list[str]) -> None:
    assert render(text, 400) == lines


def test_a_long_line_is_cut_between_words_and_each_piece_has_its_codes() -> None:
    assert render("**" + "word " * 30 + "end**", 62) == [
        "\x02" + "word " * 12,
        "\x02" + "word " * 12,
        "\x02" + "word " * 6 + "end",
    ]
    assert render("👩‍👩‍👧" * 3, 20) == ["👩‍👩‍👧"] * 3


@given(st.text(st.sampled_from("a b*_~`#>|-\n👩‍é\x02\x01[](")), st.integers(40, 400))
def test_no_line_is_too_long_or_holds_a_control_character_of_its_own(text: str, most: int) -> None:
    lines = render(text, most)
    assert all(len(line.encode()) <= most and line.strip() for line in lines)
    assert not set("".join(lines)) & set("\x00\x01\r\n")
    assert lines == render(text, most)
