"""Render Markdown as lines with IRC's formatting codes (https://modern.ircdocs.horse/formatting).

| Markdown | on IRC |
|---|---|
| bold, italic, struck, `code` | the codes 0x02, 0x1D, 0x1E and 0x11, for each line anew |
| headings | bold lines |
| tables, code blocks | lines without codes; tables with aligned columns |
| quotes | lines that begin with "> " |
| links, images | the text, followed by the address |
| empty lines | left out: IRC has none |
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.channels.formatted_markdown import write_markdown
from semel.channels.formatted_text import FormattedText
from semel.channels.markdown import MAX_FORMATTED_CHARS
from semel.text.graphemes import is_inside_grapheme
from semel.text.json_types import Json
from semel.text.visible import visible
from semel.text.wellformed import scrub

Marks = tuple[tuple[int, int, str], ...]
"""The codes of a line's spans, as (start, end, code) in characters."""
QUOTE_MARK = "> "
_CODES = {"bold": "\x02", "italic": "\x1d", "strikethrough": "\x1e", "code": "\x11"}


def render(text: str, max_bytes: int) -> list[str]:
    """Return the lines of a Markdown text, each of at most `max_bytes`. The same text always gives the same lines."""
    plain = visible(scrub(text)).split("\n")
    lines: list[tuple[str, Marks]] = [(line, ()) for line in plain]
    if len(text) <= MAX_FORMATTED_CHARS:
        try:
            runs = FormattedText(spells_links=True)
            write_markdown(runs, text)
            written, entities = runs.result()
            if written.strip():
                lines = _split_lines(written, entities)
        except RecursionError:  # hundreds of marks inside one another
            pass
    return [piece for line, marks in lines if line.strip() for piece in _cut(line, marks, max_bytes)]


def _split_lines(text: str, entities: Iterable[Json]) -> list[tuple[str, Marks]]:
    """Return the lines, each with the codes of its spans."""
    offsets = {0: 0}
    units = 0
    for n, char in enumerate(text, 1):
        units += 1 + (char > "\uffff")
        offsets[units] = n
    spans = [(offsets[each["offset"]], offsets[each["offset"] + each["length"]], each["type"]) for each in entities]
    lines: list[tuple[str, Marks]] = []
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        is_quote = any(kind == "blockquote" and lo < max(end, start + 1) and hi > start for lo, hi, kind in spans)
        mark = QUOTE_MARK if is_quote else ""
        shift = len(mark) - start
        marks = tuple(
            (max(lo, start) + shift, min(hi, end) + shift, _CODES[kind])
            for lo, hi, kind in spans
            if kind in _CODES and lo < end and hi > start
        )
        lines.append((mark + line, marks))
        start = end + 1
    return lines


def _cut(line: str, marks: Marks, max_bytes: int) -> Iterable[str]:
    """Yield a line in pieces of at most `max_bytes`, cut between characters. Each piece sets its own codes."""
    start = 0
    while start < len(line):
        end = len(line)
        while len(_mark(line, start, end, marks).encode()) > max_bytes and end > start + 1:
            end = start + max(1, (end - start) * max_bytes // len(_mark(line, start, end, marks).encode()))
        if end < len(line):
            blank = line.rfind(" ", start + 1, end)
            end = blank + 1 if blank > start + (end - start) // 2 else _step_back(line, start, end)
        if line[start:end].strip():
            yield _mark(line, start, end, marks)
        start = end


def _step_back(line: str, start: int, end: int) -> int:
    """Return the last end of a visible character up to `end`; `end` itself if the first one is longer."""
    at = end
    while at > start and is_inside_grapheme(line, at):
        at -= 1
    return at if at > start else end


def _mark(line: str, start: int, end: int, marks: Marks) -> str:
    """Return a piece of a line with its codes, which are toggles."""
    codes: dict[int, str] = {}
    for lo, hi, code in marks:
        lo, hi = max(lo, start), min(hi, end)
        if lo < hi:
            codes[lo] = codes.get(lo, "") + code
            codes[hi] = codes.get(hi, "") + (code if hi < end else "")
    return "".join(codes.get(n, "") + line[n] for n in range(start, end))
