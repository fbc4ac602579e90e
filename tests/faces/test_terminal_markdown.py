"""An agent's Markdown in the terminal and in chats: formulas as they were written, and signs that a terminal has."""

from __future__ import annotations

import pytest

from semel.channels.markdown import parse
from semel.channels.styled_text import render_styled
from semel.faces.terminal.markdown_parts import make_terminal_parser

FORMULAS = (
    "so \\(x_1 \\, x_2\\) is", "$a\\,b$ and $x_1 * y * z$", "and $$\\{a\\}$$ and \\[ \\alpha \\; b \\]",
    "$$\n\\int_0^1 x\\,dx \\\\ \\{a\\}\n- b\n$$", "\\[\na \\; b\n\\]",
)  # fmt: skip


def shown(text: str) -> list[str]:
    """The lines of a message in the terminal, without marks of blocks."""
    lines = [""]
    for token in make_terminal_parser().parse(text):
        for child in token.children or ():
            lines[-1] += child.content
            if child.type.endswith("break"):
                lines.append("")
        if token.type == "inline":
            lines.append("")
    return lines[:-1]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_stays_as_it_was_written_in_the_terminal_and_in_chats(text: str) -> None:
    assert shown(text) == text.split("\n")
    assert render_styled(text, lambda body: True, languages=False) == text


@pytest.mark.parametrize("text", ["$5 and $6 _it_", "US$5 = _it_ 6$", "$HOME/_it_ /$USER", "$FOO=$BAR _it_"])
def test_money_and_variables_are_no_formulas(text: str) -> None:
    assert any(child.type == "em_open" for token in parse(text) for child in token.children or ())


def test_tasks_have_boxes_and_details_have_their_summary() -> None:
    assert shown("- [ ] one\n- [x] *two*\n  1. [X] three\n- [y] four\n\n[ ] five") == [
        "☐ one", "☑ two", "☑ three", "[y] four", "[ ] five",
    ]  # fmt: skip
    text = "<details>\n<summary>More **here**</summary>\n\nhidden\n\n</details>"
    assert shown(f"{text}\n\n<details open><summary>A</summary>b</details>") == [
        "▾ More here",
        "hidden",
        "▴",
        "▾ A",
        "b",
        "▴",
    ]
    for kept in ("a <details> tag", "<details> without", "`</details>`", "<summary>alone</summary>"):
        assert "".join(shown(kept)) == kept.replace("`", "")
