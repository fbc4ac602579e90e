"""Show the beginning of a text as one plain line: in a list of sessions, or as the title of one.

An agent writes Markdown, and a line of a list has room for words alone. So its marks are removed: fences, headings,
emphasis, the addresses of links, the tags of `<details>`. What only looks like a mark stays: `2 * 3 * 4`, `snake_case`,
`List<String>`.
"""

from __future__ import annotations

import re

from semel.text.visible import squeeze_to_line

SOURCE_CHARS_PER_CHAR = 3  # marks and addresses of links take room that the preview does not need

_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*$", re.M)
_RULE = re.compile(r"^[ \t]*(?:[-*_=][ \t]*){3,}$", re.M)
_TABLE_RULE = re.compile(r"^[ \t]*[|:-][ \t|:-]*$", re.M)
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+(?:\[[ xX]\][ \t]+)?)+", re.M)
_TABLE_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.M)
_DETAILS = re.compile(r"^[ \t]*(?:</details>|<details(?: open)?>\s*<summary>([^\n]*?)</summary>)", re.M)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*(?:[ \t]+\"[^\"\n]*\")?\)")
_STRONG = re.compile(r"(\*\*|__|~~)(?=\S)([^\n]*?\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*_])([*_])(?=[^\s*_])([^\n*_]*[^\s*_])\1(?![\w*_])")
_CODE = re.compile(r"(?<!`)(`+)(?!`)([^\n]+?)(?<!`)\1(?!`)")


def make_preview(text: str, max_chars: int) -> str:
    """Return the beginning of a Markdown text as one line of at most `max_chars` characters, without its marks.

    A text that is longer ends in an ellipsis. Only the first characters of a long text are looked at.
    """
    source = text[: max_chars * SOURCE_CHARS_PER_CHAR]
    line = squeeze_to_line(remove_markup(source))
    if len(line) <= max_chars and len(source) == len(text):
        return line
    return line[: max_chars - 1].rstrip() + "…"


def remove_markup(text: str) -> str:
    """Return a Markdown text without its marks. What is in code spans stays as it is."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[2])
        return f"\0{len(kept) - 1}\0"

    text = text.replace("\0", "")
    for pattern in (_FENCE, _RULE, _TABLE_RULE, _LINE_MARK):
        text = pattern.sub("", text)
    text = _CODE.sub(keep, text)
    text = _TABLE_ROW.sub(lambda row: " ".join(cell.strip() for cell in row[1].split("|")), text)
    text = _DETAILS.sub(lambda begun: f"{begun[1] or ''} ", text)
    text = _LINK.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", text))
    return re.sub("\0(\\d+)\0", lambda match: kept[int(match[1])], text)
