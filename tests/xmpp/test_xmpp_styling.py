"""Markdown as XMPP message styling (XEP-0393)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.channels.xmpp.render import render

EXAMPLES = [
    ("plain text", "plain text"),
    ("**strong** and *soft* and ~~gone~~ and `code`", "*strong* and _soft_ and ~gone~ and `code`"),
    ("***both***", "_*both*_"),
    ("# A heading\n\ntext", "*A heading*\n\ntext"),
    ("in**side**word", "insideword"),
    ("**two\nlines**", "*two*\n*lines*"),
    ("a\nb  \nc", "a\nb\nc"),
    (
        "[name](https://example.org/x) and https://example.org/y",
        "name (https://example.org/x) and https://example.org/y",
    ),
    ("[https://example.org](https://example.org)", "https://example.org"),
    ("![a picture](https://example.org/p.png)", "a picture (https://example.org/p.png)"),
    ("- a\n- b\n  - c\n- d", "- a\n- b\n  - c\n- d"),
    ("3. a\n4. b", "3. a\n4. b"),
    ("- a\n\n- b", "- a\n- b"),
    ("> a\n> b\n\nc", "> a\n> b\n\nc"),
    ("```py\nx = '*y*'\n```", "```py\nx = '*y*'\n```"),
    ("- a\n\n  ```\n  x\n    y\n  ```\n", "- a\n\n```\nx\n  y\n```"),
    ("````\n```\n````", "```"),
    ("| a | bb |\n|---|---|\n| **1** | 2 |", "```\na | bb\n--+---\n1 | 2\n```"),
    ("a\n\n---\n\nb", "a\n\n---\n\nb"),
    ("2 * 3 * 4 = 24, a_b_c", "2 * 3 * 4 = 24, a_b_c"),
    ("<b>not HTML</b> & more", "<b>not HTML</b> & more"),
    ("**a \\* b**", "a * b"),
    ("", ""),
    ("   ", "   "),
    ("[](https://example.org)", "https://example.org"),
]


@pytest.mark.parametrize(("markdown", "body"), EXAMPLES)
def test_markup_becomes_styling(markdown: str, body: str) -> None:
    assert render(markdown, 10_000) == body


def test_what_would_be_too_long_leaves_as_it_was_written() -> None:
    text = "| a | b |\n|---|---|\n| " + "x" * 100 + " | y |\n| z | z |"
    assert len(render(text, 10_000)) > len(text)
    assert render(text, len(text)) == text


def test_blocks_inside_blocks_without_end_leave_as_they_were_written() -> None:
    text = "> " * 500 + "deep"
    assert render(text, 10_000) == text


WORDS = st.text("ab *_~`#>-[]()|\\\n1.!<&:/ü", max_size=60)


@settings(max_examples=150, deadline=None)
@given(WORDS)
def test_no_word_is_lost_or_changed_and_the_result_is_always_the_same(text: str) -> None:
    body = render(text, 10_000)
    assert body == render(text, 10_000)
    assert "".join(re.findall(r"[abü]", body)) == "".join(re.findall(r"[abü]", text)), "in their order"
