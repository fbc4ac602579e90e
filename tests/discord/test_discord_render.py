"""Markdown as Discord shows it: no character vanishes, and nothing becomes markup that was none."""

from __future__ import annotations

import pytest

from semel.channels.discord.render import render

CASES = [
    ("plain", "plain"),
    ("**bold** *italic* ~~struck~~ `code`", "**bold** *italic* ~~struck~~ `code`"),
    ("__bold__ _italic_", "**bold** *italic*"),
    ("# One\n## Two\n### Three\n#### Four", "# One\n## Two\n### Three\n**Four**"),
    ("one\ntwo\n\nthree", "one\ntwo\n\nthree"),
    ("- a\n- b\n  - c\n\n3. x\n4. y", "- a\n- b\n  - c\n\n3. x\n4. y"),
    ("> quoted\n> again\n\nafter", "> quoted\n> again\n\nafter"),
    ("```py\nx = 1 < 2\n```", "```py\nx = 1 < 2\n```"),
    ("```\n```", "\\`\\`\\`"),
    ("| a | b |\n|---|---|\n| 1 | **2** |", "```\na  b\n-  -\n1  2\n```"),
    ("---", "———"),
    ("[docs](https://e.org/a_b)", "[docs](https://e.org/a_b)"),
    ("[docs](https://e.org/a_(b))", "[docs](https://e.org/a_%28b%29)"),
    ("[mail](mailto:a@b.c) [js](javascript:x)", "mail (mailto:a@b.c) \\[js](javascript:x)"),
    ("https://e.org/snake_case_name and snake_case", "https://e.org/snake_case_name and snake_case"),
    ("![alt](https://e.org/p.png)", "[alt](https://e.org/p.png)"),
    ("||no spoiler|| <@123> <#1> <t:1> <:a:1>", "\\|\\|no spoiler\\|\\| \\<@123> \\<#1> \\<t:1> \\<:a:1>"),
    ("a * b, 2 < 3, \\\\server", "a \\* b, 2 < 3, \\\\\\\\server"),
    ("-# small\n5\\. no list", "\\-# small\n5\\. no list"),
    ("``a ` b``", "``a ` b``"),
]


@pytest.mark.parametrize(("text", "shown"), CASES, ids=[text[:30] for text, _ in CASES])
def test_markdown_as_discord_shows_it(text: str, shown: str) -> None:
    assert render(text, 2000) == shown
    assert render(text, 2000) == render(text, 2000)


def test_three_backticks_inside_a_block_do_not_end_it() -> None:
    shown = render("~~~\na\n```\nb\n~~~", 2000)
    assert shown.startswith("```\na\n") and shown.endswith("\nb\n```") and shown.count("```") == 2


def test_a_text_that_markup_would_make_too_long_is_sent_as_it_was_written() -> None:
    assert render("a * " * 100, 400) == ("a * " * 100).strip()


def test_control_characters_are_shown_as_stand_ins() -> None:
    assert render("a\x1bb\u202ec", 2000) == "a␛b<U+202E>c"
