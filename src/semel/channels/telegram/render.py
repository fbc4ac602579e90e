"""Render Markdown for Telegram: a plain text, and entities that format it. Without markup, nothing needs escaping.

| Markdown | on Telegram |
|---|---|
| bold, italic, struck, code, links, quotes | the same |
| code fences | a block, with its language |
| headings | bold lines |
| lists | lines with a bullet or their number |
| tables | a block with columns in line |
| images | a link with the image's name |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from markdown_it.token import Token

from semel.channels.markdown import MAX_FORMATTED_CHARS, parse
from semel.channels.telegram.formatted_text import FormattedText, utf16
from semel.channels.telegram.table import drawn
from semel.text.visible import visible, visible_within
from semel.text.wellformed import scrub

Json = dict[str, Any]
BULLET = "• "
RULE = "———"
_LINK = re.compile(r"(?:https?|tg|ton)://\S+", re.I)
_STYLES = {"strong": "bold", "em": "italic", "s": "strikethrough"}


def render(text: str, most: int) -> tuple[str, list[Json]]:
    """The text and its entities, at most `most` UTF-16 units. If the rendered text is longer, it stays as written.

    Deterministic: the same text always gives the same result.
    """
    plain = as_written(text, most)
    if len(text) > MAX_FORMATTED_CHARS:
        return plain, []
    try:
        runs = FormattedText()
        _Blocks(runs).walk(parse(visible(scrub(text))))
        shown, entities = runs.result()
    except RecursionError:
        return plain, []
    if not shown or utf16(shown) > most:
        return plain, []
    return shown, entities


def as_written(text: str, most: int) -> str:
    """The text without formatting. Invisible characters are made visible if the limit `most` allows it."""
    text = scrub(text.strip())
    return visible_within(text, utf16(visible(text)) <= most)


class _Blocks:
    """Writes block tokens. As in the source, blocks are separated by a blank line or only by a line break."""

    def __init__(self, runs: FormattedText) -> None:
        self._runs = runs
        self._line = 0  # source line after the last block written
        self._first = ""  # prefix of the next block: a list item's bullet or number
        self._depth = 0  # nesting depth of lists

    def walk(self, tokens: Sequence[Token]) -> None:
        at = 0
        while at < len(tokens):
            end = _end(tokens, at)
            self._block(tokens[at], tokens[at + 1 : end])
            at = end + 1

    def _block(self, token: Token, inside: Sequence[Token]) -> None:
        match token.type:
            case "paragraph_open":
                self._leaf(token, lambda: _inline(self._runs, inside[0].children or []))
            case "heading_open":
                self._leaf(token, lambda: self._bold(inside[0].children or []))
            case "fence" | "code_block":
                self._leaf(token, lambda: self._code(token), block=True)
            case "table_open":
                self._leaf(token, lambda: self._table(inside), block=True)
            case "hr":
                self._leaf(token, lambda: self._runs.write(RULE))
            case "blockquote_open":
                with self._runs.marked("blockquote"):
                    self.walk(inside)
            case "bullet_list_open" | "ordered_list_open":
                self._list(token, inside)
            case _:
                self._leaf(token, lambda: self._runs.write(token.content))

    def _leaf(self, token: Token, write: Callable[[], None], block: bool = False) -> None:
        """Write one block. `block`: it needs separate lines without indentation, as code and tables do."""
        start, end = token.map or (self._line, self._line)
        if self._runs:
            self._runs.between("\n" if start <= self._line else "\n\n")
        self._line = end
        if self._first:
            self._runs.write("  " * (self._depth - 1) + self._first)
            self._runs.write("\n" if block else "")
        elif not block:
            self._runs.write("  " * self._depth)
        self._first = ""
        write()

    def _list(self, token: Token, inside: Sequence[Token]) -> None:
        self._depth += 1
        at = 0
        while at < len(inside):
            item, end = inside[at], _end(inside, at)
            self._first = BULLET if token.type == "bullet_list_open" else f"{item.info}{item.markup} "
            if end == at + 1:  # an item without content
                self._leaf(item, lambda: None)
            self.walk(inside[at + 1 : end])
            at = end + 1
        self._depth -= 1
        self._first = ""

    def _bold(self, children: Sequence[Token]) -> None:
        with self._runs.marked("bold"):
            _inline(self._runs, children)

    def _code(self, token: Token) -> None:
        if not token.content.strip():  # an empty fence is shown as it was written
            self._runs.write(token.markup + token.info)
            return
        language = token.info.split()[:1]
        with self._runs.marked("pre", **({"language": language[0]} if language else {})):
            self._runs.write(token.content.rstrip("\n"))

    def _table(self, inside: Sequence[Token]) -> None:
        rows: list[list[str]] = []
        for token in inside:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(_flat(token.children or [], spelled=True))
        with self._runs.marked("pre"):
            self._runs.write(drawn(rows))


def _end(tokens: Sequence[Token], at: int) -> int:
    """The index of the token that closes the block opened at `at`; `at` itself for a block of one token."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += tokens[end].nesting
        if depth <= 0:
            return end
    return len(tokens) - 1


def _inline(runs: FormattedText, children: Sequence[Token]) -> None:
    at = 0
    while at < len(children):
        token, end = children[at], at
        if token.nesting == 1:
            end = _end(children, at)
        _piece(runs, token, children[at + 1 : end])
        at = end + 1


def _piece(runs: FormattedText, token: Token, inside: Sequence[Token]) -> None:
    match token.type:
        case "softbreak" | "hardbreak":
            runs.write("\n")
        case "code_inline":
            with runs.marked("code"):
                runs.write(token.content)
        case "image":
            _link(runs, str(token.attrGet("src") or ""), token.children or [])
        case "link_open" if token.markup in ("linkify", "autolink"):
            _inline(runs, inside)
        case "link_open":
            _link(runs, str(token.attrGet("href") or ""), inside)
        case "strong_open" | "em_open" | "s_open":
            with runs.marked(_STYLES[token.tag]):
                _inline(runs, inside)
        case _:
            runs.write(token.content)


def _link(runs: FormattedText, url: str, inside: Sequence[Token]) -> None:
    """Write a link as an entity over its text. A link that shows its address stays text; an address with a scheme that
    Telegram does not link is written out after the text."""
    shown = _flat(inside)
    if not shown.strip():
        runs.write(url)
    elif shown == url or url.endswith(f"://{shown}") or url == f"mailto:{shown}":
        runs.write(shown)
    elif _LINK.fullmatch(url) and not runs.spelled:
        with runs.marked("text_link", url=url):
            _inline(runs, inside)
    else:
        _inline(runs, inside)
        runs.write(f" ({url})" if url else "")


def _flat(children: Sequence[Token], spelled: bool = False) -> str:
    """The text of inline tokens without styles; with `spelled`, the addresses of links are written out."""
    runs = FormattedText(spelled)
    _inline(runs, children)
    return runs.result()[0]
