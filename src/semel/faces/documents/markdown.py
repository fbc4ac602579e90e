"""A session as Markdown: one heading per entry, with its text below.

The text is Markdown or plain text already. It is kept, except for what would break out of its entry: headings move two
levels down, an open code fence is closed, and HTML tags are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from semel.faces.transcript import body, flat, marks, speaker, stamp
from semel.text.fences import fences
from semel.text.visible import visible

Json = dict[str, Any]

_HEADING = re.compile(r"^( {0,3})(#{1,6})(?=[ \t]|$)", re.M)
_UNDERLINE = re.compile(r"(?<=[^\s])([ \t]*\r?\n {0,3})(=+|-+)(?=[ \t]*$)", re.M)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_INLINE = re.compile(r"[\\`*_\[\]<>#|]")


class MarkdownDocument:
    media = "text/markdown"

    def page(self, records: Sequence[Json]) -> bytes:
        return "".join(map(self._record, records)).encode()

    def end(self) -> bytes:
        return b""

    def _record(self, record: Json) -> str:
        if record["line"] == "session":
            title = f"\n{_one_line(record['title'])}\n" if record["title"] else ""
            return f"# {record['key']}\n{title}"
        if record["line"] != "entry":
            return ""
        entry = flat(record)
        noted = f" · {_one_line(', '.join(marks(entry)))}" if marks(entry) else ""
        head = f"{entry['seq']} · {_one_line(speaker(entry))} · {stamp(entry['at'])}{noted}"
        return f"\n## {head}\n\n{contain_markdown(visible(body(entry)))}\n"


def contain_markdown(text: str) -> str:
    """Change Markdown so that it cannot break out of its entry."""
    out, at = [], 0
    marker = ""
    for fence in fences(text):
        out += [_outside(text[at : fence.lo]), text[fence.lo : fence.hi]]
        at = fence.hi
        marker = fence.marker if fence.close == fence.hi else ""  # the fence is not closed
    return "".join([*out, _outside(text[at:])]) + (f"\n{marker}" if marker else "")


def _outside(text: str) -> str:
    text = _HEADING.sub(lambda found: found[1] + "#" * min(6, len(found[2]) + 2), text)
    text = _UNDERLINE.sub(r"\1\\\2", text)
    return _TAG.sub(r"\\<", text)


def _one_line(text: str) -> str:
    return _INLINE.sub(r"\\\g<0>", visible(" ".join(text.split())))
