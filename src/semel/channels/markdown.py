"""What an agent writes, Markdown, as tokens: each platform's dialect is rendered from these."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

MOST = 100_000
"""Longer texts (characters) go as plain text: no platform shows so long a formatted one."""


@cache
def _parser() -> MarkdownIt:
    """CommonMark with tables, ~~struck~~ text and bare links; HTML is text.

    Without link references: "[INFO]: done" would be one, and nobody would see it. Nor are links guessed: `main.py` is
    a file, and no site in Paraguay.
    """
    parser = MarkdownIt("commonmark", {"html": False, "linkify": True})
    assert parser.linkify is not None
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
    return parser.enable(["table", "strikethrough", "linkify"]).disable("reference")


def parse(text: str) -> list[Token]:
    """The block tokens of markdown-it-py; an `inline` token holds its own in `children`."""
    return _parser().parse(text)
