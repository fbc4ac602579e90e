"""Render Markdown as XEP-0393 message styling.

The text contains its marks: `*strong*`, `_emphasis_`, `~struck~`, `` `code` ``, "> " quotes and ``` blocks. Markup is
removed or replaced; no other character changes. Marks that clients would not recognize (inside a word, next to a space)
are left out. The same text always gives the same body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markdown_it.token import Token

from semel.channels.markdown import MAX_FORMATTED_CHARS, follows_no_links, parse, spell_links
from semel.text.visible import visible, visible_within

MARKS = {"strong": "*", "em": "_", "s": "~"}


def styled(text: str, most: int) -> str:
    """The body for a Markdown text. If it would exceed `most` bytes, the text stays as it was written."""
    plain = visible_within(text, len(visible(text).encode()) <= most)
    if len(text) > MAX_FORMATTED_CHARS:
        return plain
    tokens = parse(visible(text))
    spell_links(tokens, follows_no_links)
    body = "\n".join(_blocks(tokens)).rstrip()
    return body if body.strip() and len(body.encode()) <= most else plain


# ---------------------------------------------------------------- blocks


@dataclass
class _Cursor:
    """A position in a list of tokens."""

    tokens: Sequence[Token]
    at: int = 0

    def inside(self, opening: Token) -> Sequence[Token]:
        """The tokens between `opening` and its closing token; moves behind the latter."""
        closing = opening.type.removesuffix("_open") + "_close"
        start = self.at
        while (token := self.tokens[self.at]).type != closing or token.level != opening.level:
            self.at += 1
        self.at += 1
        return self.tokens[start : self.at - 1]


def _blocks(tokens: Sequence[Token], tight: bool = False) -> list[str]:
    """The blocks as lines, separated by empty lines except in tight list items."""
    lines: list[str] = []
    cursor = _Cursor(tokens)
    while cursor.at < len(tokens):
        token = tokens[cursor.at]
        cursor.at += 1
        block = _block(token, cursor)
        lines += ["", *block] if lines and not tight else block
    return lines


def _block(token: Token, cursor: _Cursor) -> list[str]:
    match token.type:
        case "paragraph_open":
            return _inline(cursor.inside(token)).split("\n")
        case "heading_open":
            return _wrapped("*", _inline(cursor.inside(token)), "").split("\n")
        case "blockquote_open":
            return [f"> {line}".rstrip() for line in _blocks(cursor.inside(token))]
        case "bullet_list_open" | "ordered_list_open":
            return _items(token, cursor.inside(token))
        case "table_open":
            return _fenced(_table(cursor.inside(token)), "")
        case "fence" | "code_block":
            return _fenced(token.content.removesuffix("\n").split("\n"), token.info.strip())
        case "hr":
            return ["---"]
    return [token.content] if token.content else []


def _items(opening: Token, inside: Sequence[Token]) -> list[str]:
    lines: list[str] = []
    number = int(opening.attrs.get("start", 1)) if opening.type == "ordered_list_open" else None
    cursor = _Cursor(inside)
    while cursor.at < len(inside):
        token = inside[cursor.at]
        cursor.at += 1
        content = cursor.inside(token)
        tight = all(each.hidden for each in content if each.type == "paragraph_open" and each.level == token.level + 1)
        mark = "- " if number is None else f"{number}. "
        first, *rest = _blocks(content, tight) or [""]
        if first.startswith("```"):  # a code block must begin at the start of a line
            lines += [mark.rstrip(), first]
        else:
            lines.append(mark + first)
        lines += _indented(rest, " " * len(mark), first.startswith("```"))
        number = number if number is None else number + 1
    return lines


def _indented(lines: list[str], by: str, code: bool) -> list[str]:
    """Indent lines, except in code blocks, which indentation would break. `code`: the lines begin inside one."""
    out = []
    for line in lines:
        fence = line.startswith("```")
        out.append(line if code or fence or not line else by + line)
        code = code != fence
    return out


def _fenced(lines: list[str], info: str) -> list[str]:
    """The lines as a code block; unchanged if one of them would end the block."""
    if any(line.startswith("```") for line in lines):
        return lines
    return ["```" + info, *lines, "```"]


def _table(tokens: Sequence[Token]) -> list[str]:
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_text(token.children or ()))
    widths = [max(len(row[i]) if i < len(row) else 0 for row in rows) for i in range(max(map(len, rows)))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    return [lines[0], "-+-".join("-" * width for width in widths), *lines[1:]]


# ---------------------------------------------------------------- inside a line


@dataclass
class _Span:
    """A piece of text inside marks."""

    mark: str = ""
    text: list[str] = field(default_factory=list)


def _inline(tokens: Sequence[Token]) -> str:
    return "".join(_spans(token.children or ()) for token in tokens if token.type == "inline")


def _spans(tokens: Sequence[Token]) -> str:
    stack = [_Span()]
    for token in tokens:
        kind = token.type.removesuffix("_open")
        if kind in MARKS:
            stack.append(_Span(MARKS[kind]))
        elif token.type.endswith("_close"):
            span = stack.pop()
            before = "".join(stack[-1].text)
            stack[-1].text.append(_closed(span, before))
        else:
            stack[-1].text.append(_leaf(token))
    return "".join("".join(span.text) for span in stack)


def _closed(span: _Span, before: str) -> str:
    return _wrapped(span.mark, "".join(span.text), before)


def _leaf(token: Token) -> str:
    match token.type:
        case "softbreak" | "hardbreak":
            return "\n"
        case "code_inline":
            return _wrapped("`", token.content, "")
    return token.content


def _wrapped(mark: str, text: str, before: str) -> str:
    """Put marks around each line of a text, because a styled span ends with its line (XEP-0393, 6.2)."""
    if mark in text or before[-1:].isalnum():
        return text
    return "\n".join(line if not line or line != line.strip() else mark + line + mark for line in text.split("\n"))


def _text(tokens: Sequence[Token]) -> str:
    """The text without marks, for tables, where clients would show them."""
    return "".join(_text(t.children) if t.children else " " if t.type.endswith("break") else t.content for t in tokens)
