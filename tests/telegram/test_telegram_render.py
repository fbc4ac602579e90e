"""Markdown as Telegram shows it: entities that Telegram takes, over a text that lost nothing but markup."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from semel.channels.telegram.render import render
from semel.channels.text_table import draw_table
from semel.testing.telegram.text import check_text, count_utf16_units, covered_text
from semel.text.split import measure


def shown(markdown: str, most: int = 4096) -> tuple[str, list[tuple[str, str]]]:
    """The text, and (kind, covered text) of each entity, as the double takes them."""
    text, entities = render(markdown, most)
    kept, marks = check_text(text, entities, most, "message text")
    assert kept == text
    assert marks == entities
    return text, [(each["type"], covered_text(text, each["offset"], each["length"])) for each in entities]


@pytest.mark.parametrize(
    ("markdown", "text", "marks"),
    [
        ("**bold**", "bold", [("bold", "bold")]),
        ("*it* ~~no~~ `x`", "it no x", [("italic", "it"), ("strikethrough", "no"), ("code", "x")]),
        ("**a *b* c**", "a b c", [("bold", "a b c"), ("italic", "b")]),
        ("**a `b` c**", "a b c", [("bold", "a"), ("code", "b"), ("bold", "c")]),
        ("[here](https://a.b)", "here", [("text_link", "here")]),
        ("[`x`](https://a.b)", "x", [("text_link", "x")]),
        ("[me](notes/x.md)", "me (notes/x.md)", []),
        ("https://a.b/c", "https://a.b/c", []),
        ("<https://a.b/c>", "https://a.b/c", []),
        ("![cat](https://a.b/c.png)", "cat", [("text_link", "cat")]),
        ("# One\ntwo", "One\ntwo", [("bold", "One")]),
        ("# **One**", "One", [("bold", "One")]),
        ("> a\n> b", "a\nb", [("blockquote", "a\nb")]),
        ("> a\n\nb", "a\n\nb", [("blockquote", "a")]),
        ("> a\n>\n> > b `c`", "a\n\nb c", [("blockquote", "a\n\nb c"), ("code", "c")]),
        ("- a\n- b\n  - c", "• a\n• b\n  • c", []),
        ("3. a\n7) b", "3. a\n7) b", []),
        ("7. a\n9. b", "7. a\n9. b", []),
        ("---", "———", []),
        ("a  \nb", "a\nb", []),
        ("a\nb\n\nc", "a\nb\n\nc", []),
        ("<b>x</b> &lt; 3", "<b>x</b> &lt; 3", []),
        ("😀**é😀b**😀", "😀é😀b😀", [("bold", "é😀b")]),
        ("שלום **עולם** x", "שלום עולם x", [("bold", "עולם")]),
        ("[INFO]: done", "[INFO]: done", []),
        ("2 * 3 * 4 and snake_case_name", "2 * 3 * 4 and snake_case_name", []),
    ],
)  # fmt: skip
def test_markdown_is_shown_as(markdown: str, text: str, marks: list[tuple[str, str]]) -> None:
    assert shown(markdown) == (text, marks)


def test_a_fence_is_a_block_with_its_language() -> None:
    text, entities = render("see\n\n```python title=x\ndef f():\n    *x* = 1\n```\nend", 4096)
    assert text == "see\n\npython title=x\ndef f():\n    *x* = 1\nend"
    assert entities == [{"type": "pre", "offset": 20, "length": 20, "language": "python"}]


def test_a_table_stands_in_line_and_spells_its_links() -> None:
    text, marks = shown("| a | b |\n|---|---|\n| 漢字 | **x** |\n| 1 | [l](https://q.r) |")
    assert text == "a     b\n----  ---------------\n漢字  x\n1     l (https://q.r)"
    assert [kind for kind, _ in marks] == ["pre"]


def test_rows_of_unequal_length_are_drawn() -> None:
    assert draw_table([["a", "b"], ["c"], []]) == "a  b\n-  -\nc\n"


def test_what_grows_beyond_the_limit_stays_as_it_was_written() -> None:
    table = "| " + "x" * 60 + " | y |\n|---|---|\n" + "\n".join(f"| {n} | z |" for n in range(40))
    assert render(table, 4096)[1] == [] or count_utf16_units(render(table, 4096)[0]) <= 4096
    assert render(table, len(table)) == (table, [])


def test_half_of_a_surrogate_pair_is_a_replacement_character_however_long_the_text_is() -> None:
    for most in (4096, 10):
        assert render("half \ud83d of a pair", most) == ("half \ufffd of a pair", [])


def test_what_shows_nothing_stays_as_it_was_written() -> None:
    assert render("[](x)", 4096)[0] != ""
    assert render("   ", 4096) == ("", [])


def test_no_more_than_a_hundred_entities_leave() -> None:
    assert len(render("**b** x " * 150, 4096)[1]) == 100


def test_deep_nesting_is_no_trouble() -> None:
    for source in (">" * 3000 + " x", "- " * 1000 + "x", "[" * 1000 + "x", "**" * 700 + "x"):
        text, entities = render(source, 4096)
        check_text(text, entities, 4096, "message text")


WORDS = st.text(st.sampled_from("aZ9 é漢😀👨‍💻עb.-_*`[]()<>#|~!\n&;:\\ /"), max_size=60)
PIECES = st.sampled_from(
    ["**", "*", "`", "```", "```py\n", "\n```\n", "~~", "> ", "- ", "1. ", "# ", "\n\n", "\n", "[t](https://a.b)",
     "[a](b)", "![i](https://c.d)", "| a | b |\n|---|---|\n| c | d |\n", "---\n", "https://x.yz", "  ", "_", "[x]: y"]
)  # fmt: skip
MARKDOWN = st.lists(WORDS | PIECES, max_size=25).map("".join)


@settings(max_examples=80, deadline=None)
@given(MARKDOWN)
def test_whatever_is_written_telegram_takes_it(markdown: str) -> None:
    text, entities = render(markdown, 4096)
    if not text:
        assert not markdown.strip()
        return
    kept, marks = check_text(text, entities, 4096, "message text")
    assert kept == text and len(marks) == len(entities)
    assert render(markdown, 4096) == (text, entities)


LETTERS = st.text(st.sampled_from("abcXYZ09é漢😀ע"), min_size=1, max_size=8)


@st.composite
def styled(draw: Any, depth: int = 0) -> tuple[str, str]:
    """(markdown, its visible letters)."""
    kind = draw(st.sampled_from(["word", "bold", "italic", "struck", "code", "link", "row"]))
    if depth > 3 or kind == "word":
        word = draw(LETTERS)
        return word, word
    if kind == "code":
        word = draw(LETTERS)
        return f"`{word}`", word
    if kind == "row":
        parts = draw(st.lists(styled(depth + 1), min_size=1, max_size=3))
        return " ".join(m for m, _ in parts), "".join(v for _, v in parts)
    markdown, visible = draw(styled(depth + 1))
    wrap = {"bold": ("**", "**"), "italic": ("*", "*"), "struck": ("~~", "~~"), "link": ("[", "](https://q.rs)")}
    before, behind = wrap[kind]
    return f"{before}{markdown}{behind}", visible


BLOCKS = st.sampled_from(["{}", "# {}", "- {}", "> {}", "1. {}", "- x\n  - {}", "> - {}"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(BLOCKS, styled()), min_size=1, max_size=6))
def test_no_letter_is_lost(blocks: list[tuple[str, tuple[str, str]]]) -> None:
    source = "\n\n".join(frame.format(markdown) for frame, (markdown, _) in blocks)
    assume("~~~" not in source)  # a fence, and what stands behind it names its language
    text, entities = render(source, 4096)
    check_text(text, entities, 4096, "message text")
    for _, (_, visible) in blocks:
        assert visible in re.sub(r"[\s*~`\[\]()]|https://q\.rs", "", text)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=80))
def test_units_are_utf16(text: str) -> None:
    assert count_utf16_units(text) == measure(text, "utf16")
