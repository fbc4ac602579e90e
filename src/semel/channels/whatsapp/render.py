"""Render Markdown as WhatsApp shows it: text with the marks `*bold*`, `_italic_`, `~struck~` and `` `code` ``.

Lists ("- ", "1. "), quotes ("> ") and ``` blocks are WhatsApp's own, too; a heading becomes a bold line, a table a code
block, a link its text and its address.
"""

from __future__ import annotations

from semel.channels.styled_text import render_styled
from semel.text.split import measure
from semel.text.wellformed import scrub

LINE_END = " / "
"""What stands for a line break where WhatsApp takes none: in a template's variable."""


def render(text: str, max_units: int) -> str:
    """Return the text of a message. If it would be longer than `max_units` UTF-16 units, it stays as it was written."""
    return render_styled(scrub(text.strip()), lambda body: measure(body, "utf16") <= max_units, languages=False)


def render_line(text: str, max_units: int) -> str:
    """Return a text as one line, for a template's variable: it takes no line breaks, tabs and runs of blanks."""
    lines = (" ".join(line.split()) for line in render(text, max_units).split("\n"))
    return LINE_END.join(line for line in lines if line)
