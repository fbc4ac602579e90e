"""Render Markdown as the HTML that Teams shows with `textFormat: "xml"`
(https://learn.microsoft.com/microsoftteams/platform/bots/how-to/format-your-bot-messages).

Teams' own Markdown knows few marks and drops others, so Semel parses the Markdown itself. Teams has no tables and loads
remote images: tables become aligned text, images links. A text that would be too long is sent as it was written. Nobody
is mentioned by accident: that needs an entity beside the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from semel.channels.markdown import MAX_FORMATTED_CHARS, has_scheme, parse, write_out_links
from semel.channels.markdown_html import HTML_OPTIONS, ImagelessRenderer
from semel.channels.text_table import draw_table
from semel.text.json_types import Json
from semel.text.visible import visible, visible_within
from semel.text.wellformed import scrub

MAX_TEXT_BYTES = 90_000
"""Bytes of a text in UTF-16. Teams takes 100 KB of a message, everything in it but pictures included
(https://learn.microsoft.com/microsoftteams/platform/bots/how-to/format-your-bot-messages)."""
_SCHEMES = frozenset({"http", "https", "mailto"})


def render(text: str) -> Json:
    """Return the fields of a message with a Markdown text."""
    plain = scrub(text.strip())
    shown = visible_within(plain, _fits(visible(plain)))
    if len(shown) <= MAX_FORMATTED_CHARS:
        tokens = parse(visible(plain))
        write_out_links(tokens, has_scheme(_SCHEMES))
        try:
            html = ImagelessRenderer().render(list(_draw_tables(tokens)), HTML_OPTIONS, {}).strip()
        except RecursionError:
            html = ""
        if html and _fits(html):
            return {"textFormat": "xml", "text": html}
    return {"textFormat": "plain", "text": shown}


def _fits(text: str) -> bool:
    return len(text.encode("utf-16-le", "surrogatepass")) <= MAX_TEXT_BYTES


def _draw_tables(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens in which each table is a code block with aligned columns."""
    drawn: list[Token] = []
    start = None
    for index, token in enumerate(tokens):
        if token.type == "table_open":
            start = index
        if start is None:
            drawn.append(token)
        if token.type == "table_close" and start is not None:
            rows = [
                ["".join(leaf.content for leaf in cell.walk() if not leaf.children) for cell in row.children]
                for row in SyntaxTreeNode(tokens[start : index + 1]).walk()
                if row.type == "tr"
            ]
            drawn.append(Token("code_block", "code", 0, content=draw_table(rows)))
            start = None
    return drawn
