"""Render Markdown for Signal: a plain text, and styles of parts of it.

| Markdown | on Signal |
|---|---|
| bold, italic, struck | the same |
| code, code fences, tables | monospace |
| headings | bold lines |
| lists | lines with a bullet or their number |
| quotes | lines that begin with "> " |
| links, images | the text, followed by the address |
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.channels.formatted_markdown import write_markdown
from semel.channels.formatted_text import FormattedText
from semel.channels.markdown import MAX_FORMATTED_CHARS
from semel.text.json_types import Json
from semel.text.visible import visible, visible_within
from semel.text.wellformed import scrub

QUOTE_MARK = "> "
_STYLES = {
    "bold": "BOLD",
    "italic": "ITALIC",
    "strikethrough": "STRIKETHROUGH",
    "code": "MONOSPACE",
    "pre": "MONOSPACE",
}


def render(text: str, max_bytes: int, ahead: str = "") -> tuple[str, list[str]]:
    """Render a Markdown text. Returns (text, styles), each style as signal-cli takes it: START:LENGTH:STYLE in UTF-16.

    `ahead`: plain text to put before it. Deterministic: the same text always gives the same result. If nothing would be
    left to see, or more than `max_bytes`, the Markdown is returned as written.
    """
    written = scrub(text.strip())
    plain = ahead + visible_within(written, len((ahead + visible(written)).encode()) <= max_bytes)
    if len(text) > MAX_FORMATTED_CHARS:
        return plain, []
    try:
        runs = FormattedText(spells_links=True)
        write_markdown(runs, text)
        rendered, entities = runs.result()
    except RecursionError:
        return plain, []
    if not rendered:
        return (plain, []) if text.strip() else ("", [])
    marked, styles = _mark_quotes(rendered, entities, ahead)
    return (marked, styles) if len(marked.encode()) <= max_bytes else (plain, [])


def _mark_quotes(text: str, entities: Sequence[Json], ahead: str) -> tuple[str, list[str]]:
    """Put QUOTE_MARK before each quoted line, and `ahead` before the text. Returns (text, styles)."""
    units = text.encode("utf-16-le")
    newline = "\n".encode("utf-16-le")
    marks: list[int] = []
    for entity in entities:
        if entity["type"] == "blockquote":
            start, end = entity["offset"], entity["offset"] + entity["length"]
            starts = [start, *(n + 1 for n in range(start, end) if units[2 * n : 2 * n + 2] == newline)]
            marks += [n for n in starts if n not in marks]
    marks.sort()
    pieces, position = [ahead], 0
    for mark in marks:
        pieces += [units[2 * position : 2 * mark].decode("utf-16-le"), QUOTE_MARK]
        position = mark
    pieces.append(units[2 * position :].decode("utf-16-le"))
    return "".join(pieces), list(_shift_styles(entities, marks, len(ahead)))


def _shift_styles(entities: Sequence[Json], marks: Sequence[int], ahead: int) -> Sequence[str]:
    """Return the styles in the text with its marks. `ahead`: the length of what was put before it."""
    styles = []
    for entity in entities:
        if entity["type"] not in _STYLES:
            continue
        start, end = entity["offset"], entity["offset"] + entity["length"]
        before = sum(mark <= start for mark in marks) * len(QUOTE_MARK)
        inside = sum(start < mark < end for mark in marks) * len(QUOTE_MARK)
        styles.append(f"{ahead + start + before}:{entity['length'] + inside}:{_STYLES[entity['type']]}")
    return styles
