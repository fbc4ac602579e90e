"""A session as Markdown: one heading per entry, with its text below.

An entry's text is Markdown or plain text already. The text is kept, except for what would break out of its entry:
headings move two levels down, an open code fence is closed, and HTML tags are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from semel.faces.transcript import describe_item, flatten_record, format_body, format_timestamp, list_remarks, speaker
from semel.text.fences import find_fences
from semel.text.json_types import Json
from semel.text.visible import visible

_HEADING = re.compile(r"^( {0,3})(#{1,6})(?=[ \t]|$)", re.M)
_HEADING_UNDERLINE = re.compile(r"(?<=[^\s])([ \t]*\r?\n {0,3})(=+|-+)(?=[ \t]*$)", re.M)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_INLINE_MARKUP = re.compile(r"[\\`*_\[\]<>#|]")


class MarkdownDocument:
    media = "text/markdown"
    shows_items = True

    def page(self, records: Sequence[Json]) -> bytes:
        return "".join(map(self._render_record, records)).encode()

    def end(self) -> bytes:
        return b""

    def _render_record(self, record: Json) -> str:
        if record["line"] == "session":
            title = f"\n{_escape_line(record['title'])}\n" if record["title"] else ""
            return f"# {record['key']}\n{title}"
        if record["line"] == "item":
            return f"\n> {' · '.join(_escape_line(part) for part in describe_item(record))}\n"
        if record["line"] != "entry":
            return ""
        entry = flatten_record(record)
        mark_text = f" · {_escape_line(', '.join(list_remarks(entry)))}" if list_remarks(entry) else ""
        head = f"{entry['seq']} · {_escape_line(speaker(entry))} · {format_timestamp(entry['at'])}{mark_text}"
        return f"\n## {head}\n\n{contain_markdown(visible(format_body(entry)))}\n"


def contain_markdown(text: str) -> str:
    """Change Markdown so that it cannot break out of its entry."""
    parts, position = [], 0
    open_marker = ""
    for fence in find_fences(text):
        parts += [_escape_markup(text[position : fence.lo]), text[fence.lo : fence.hi]]
        position = fence.hi
        open_marker = fence.marker if fence.close == fence.hi else ""  # the fence is not closed
    return "".join([*parts, _escape_markup(text[position:])]) + (f"\n{open_marker}" if open_marker else "")


def _escape_markup(text: str) -> str:
    text = _HEADING.sub(lambda match: match[1] + "#" * min(6, len(match[2]) + 2), text)
    text = _HEADING_UNDERLINE.sub(r"\1\\\2", text)
    return _TAG.sub(r"\\<", text)


def _escape_line(text: str) -> str:
    return _INLINE_MARKUP.sub(r"\\\g<0>", visible(" ".join(text.split())))
