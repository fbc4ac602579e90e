"""Parse an agent's Markdown into tokens, from which the page, the terminal and each platform's dialect are rendered.

Formatting must not lose text (Law 8). Marks that readers see as formatting are consumed; text that a CommonMark
renderer would drop silently is kept:

| written | CommonMark drops | kept as |
|---|---|---|
| `<b>`, `&lt;` | the tag; the entity's letters | text |
| `\\\\server` | a backslash | text |
| `\\[y\\]`, which may be a formula | the backslashes | text |
| `\\\\(a\\\\,b\\\\)`, and other formulas | backslashes | text, as it was written |
| `[INFO]: done` | the line, as a link reference definition | text |
| a table's row with more cells than its head | the cells | in the last cell |
| blocks nested too deep | their content | the whole text, as it was written |
| "```sh run this" | all but "sh" | a line above the code |
| `[text](url "title")` | the title | appended to the text |
| `[](url)`, `![](url)` | the whole link or image | the address, as text |
| `3. a`, then `7. b` | the 7 | two lists |
| `https://e.org/a%20b` | the spelling of the address | as it was written |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from semel.channels.formulas import MATH_BLOCK, add_formulas

MAX_FORMATTED_CHARS = 100_000
"""Characters above which a text is sent as plain text: no platform shows formatted texts of that length."""
MAX_NESTING = 40
"""Maximum nesting of blocks. A text that nests deeper is treated as plain text. A list counts as two levels."""

_LANGUAGE = re.compile(r"[\w+#.-]{1,20}")
_SURPLUS_CELLS = "cells"
"""Key of a token's metadata under which `_table` keeps surplus cells."""


class _LosslessMarkdown(MarkdownIt):
    """CommonMark with tables, ~~struck~~ text and bare links.

    A bare link needs a scheme, so that a file name such as `main.py` is not taken for a host.
    """

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False, "linkify": True, "maxNesting": MAX_NESTING})
        assert self.linkify is not None
        self.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
        self.enable(["table", "strikethrough", "linkify"]).disable("reference")
        self.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
        add_formulas(self)
        self.core.ruler.after("block", "whole_lists", _split_lists)
        self.core.ruler.after("inline", "whole_rows", _show_surplus_cells)
        self.core.ruler.after("whole_rows", "whole_fences", _show_fence_info)
        self.core.ruler.after("whole_fences", "whole_formulas", _show_formulas)
        self.core.ruler.before("text_join", "as_written", _restore_escapes)
        self.core.ruler.push("whole_links", _show_link_titles)

    def parse(self, src: str, env: Any = None) -> list[Token]:
        tokens = super().parse(src, env)
        deep = any(token.level >= MAX_NESTING - 1 for token in tokens)
        return _plain(src) if deep else tokens

    def normalizeLinkText(self, link: str) -> str:
        return link


def make_parser() -> MarkdownIt:
    """Return a new parser, for callers that change its rules or options."""
    return _LosslessMarkdown()


_shared_parser = cache(make_parser)


def parse(text: str) -> list[Token]:
    """Parse a text into markdown-it-py block tokens. The `children` of an `inline` token are its inline tokens."""
    return _shared_parser().parse(text)


def write_out_links(tokens: Sequence[Token], follows: Callable[[str], bool], keep: bool = False) -> None:
    """Write out the addresses of links and images that readers could not follow: "text (address)". Changes `tokens`.

    `follows(address)`: whether the destination shows this address as a working link. `keep`: whether a link whose
    address is written out also stays a link; if not, only its text and address remain.
    """
    for token in tokens:
        if token.children:
            token.children = _spell_children(token.children, follows, keep)


def follows_no_links(address: str) -> bool:
    """A `follows` argument for `write_out_links`: always false, for destinations that show no links."""
    return False


def has_scheme(schemes: frozenset[str]) -> Callable[[str], bool]:
    """Return a `follows` argument for `write_out_links`: true for addresses with one of these schemes."""
    return lambda address: address.partition(":")[0].lower() in schemes and ":" in address


# ---------------------------------------------------------------- blocks


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a table. A row's surplus cells (beyond the columns of its head) are kept in its last cell's metadata."""
    previous = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    columns = sum(token.type == "th_open" for token in state.tokens[previous:])
    last_cells = {token.map[0]: token for token in state.tokens[previous:] if token.type == "inline" and token.map}
    for line, token in last_cells.items():
        if extra := _cells(state, line)[columns:]:
            token.meta[_SURPLUS_CELLS] = "".join(f" | {cell}" for cell in extra)
    return True


def _cells(state: StateBlock, line: int) -> list[str]:
    cells = escapedSplit(state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].strip())
    inner = cells[cells[0] == "" :]
    return [cell.strip() for cell in inner[: len(inner) - (inner[-1:] == [""])]]


def _plain(text: str) -> list[Token]:
    """Return the whole text as one unformatted paragraph."""
    return _paragraph(text, 0, [0, text.count("\n") + 1])


def _paragraph(text: str, level: int, lines: list[int]) -> list[Token]:
    children: list[Token] = []
    for line in text.strip("\n").split("\n"):
        children += [Token("softbreak", "br", 0)] if children else []
        children.append(_text(line))
    opening = Token("paragraph_open", "p", 1, level=level, block=True, map=lines)
    inline = Token("inline", "", 0, level=level + 1, block=True, map=lines, content=text, children=children)
    return [opening, inline, Token("paragraph_close", "p", -1, level=level, block=True)]


def _show_fence_info(state: StateCore) -> None:
    """Move the info string of a code fence into a paragraph above the code, unless it is only a language."""
    tokens: list[Token] = []
    for token in state.tokens:
        if token.type != "fence":
            tokens.append(token)
            continue
        token.info, shown_info = split_fence_info(token.info)
        if shown_info:
            assert token.map is not None
            tokens += _paragraph(shown_info, token.level, [token.map[0], token.map[0] + 1])
        tokens.append(token)
    state.tokens = tokens


def _show_formulas(state: StateCore) -> None:
    """Make a paragraph of each formula with lines of its own."""
    tokens: list[Token] = []
    for token in state.tokens:
        is_formula = token.type == MATH_BLOCK and token.map is not None
        tokens += _paragraph(token.content, token.level, token.map or []) if is_formula else [token]
    state.tokens = tokens


def split_fence_info(info: str) -> tuple[str, str]:
    """Split a code fence's info string into (language, text to show).

    The language is the first word, or "" if that cannot be a language. The text is the whole info string, or "" if that
    holds nothing but the language.
    """
    words = info.split()
    language = words[0] if words and _LANGUAGE.fullmatch(words[0]) else ""
    return language, "" if words in ([], [language]) else info.strip()


def _show_surplus_cells(state: StateCore) -> None:
    for token in state.tokens:
        if token.children is not None and _SURPLUS_CELLS in token.meta:
            token.children.append(_text(token.meta[_SURPLUS_CELLS]))


def _split_lists(state: StateCore) -> None:
    """Split an ordered list before each item whose number does not follow its predecessor's."""
    tokens: list[Token] = []
    open_lists: list[tuple[Token, int | None]] = []
    for token in state.tokens:
        if token.type in ("ordered_list_open", "bullet_list_open"):
            open_lists.append((token, None))
        elif token.type in ("ordered_list_close", "bullet_list_close"):
            open_lists.pop()
        elif token.type == "list_item_open" and open_lists[-1][0].type == "ordered_list_open":
            opening, expected = open_lists[-1]
            number = int(token.info)
            if expected is not None and number != expected:
                opening = _start_new_list(tokens, opening, token, number)
            open_lists[-1] = (opening, number + 1)
        tokens.append(token)
    state.tokens = tokens


def _start_new_list(tokens: list[Token], opening: Token, item: Token, number: int) -> Token:
    assert opening.map is not None and item.map is not None
    closing = Token("ordered_list_close", "ol", -1, level=opening.level, block=True, markup=opening.markup)
    new_list = opening.copy(attrs={"start": number}, map=[item.map[0], opening.map[1]])
    tokens += [closing, new_list]
    return new_list


# ---------------------------------------------------------------- inside a line


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _restore_escapes(state: StateCore) -> None:
    """Undo the decoding of HTML entities and of escaped backslashes and brackets: they are shown as they were written.

    In a link's text, brackets need the escape: there it is markup.
    """
    for token in state.tokens:
        is_in_link = False
        for child in _flatten(token.children or ()):
            if child.type in ("link_open", "link_close"):
                is_in_link = child.nesting == 1
            is_kept = child.markup == "\\\\" or (child.markup in ("\\[", "\\]") and not is_in_link)
            if child.type == "text_special" and (child.info == "entity" or is_kept):
                child.content = child.markup


def _flatten(children: Sequence[Token]) -> list[Token]:
    return [one for child in children for one in (child, *_flatten(child.children or ()))]


def _show_link_titles(state: StateCore) -> None:
    for token in state.tokens:
        if token.children:
            token.children = _append_titles(token.children)


def _append_titles(children: Sequence[Token]) -> list[Token]:
    """Append a link's title to its text, and show the address of a link without text."""
    pieces: list[Token] = []
    opening, empty = Token("", "", 0), False
    for child in children:
        if child.type == "image":
            title = f' "{child.attrs.pop("title")}"' if child.attrGet("title") else ""
            label = child.content if child.content.strip() else str(child.attrGet("src") or "")
            child.children = [_text(label + title)]
        if child.type == "link_close":
            href, title = str(opening.attrGet("href") or ""), str(opening.attrs.pop("title", ""))
            addition = (href if empty else "") + (f' "{title}"' if title else "")
            pieces += [_text(addition)] if addition else []
        elif child.type == "link_open":
            opening, empty = child, True
        elif child.content.strip() or child.children:
            empty = False
        pieces.append(child)
    return pieces


def _spell_children(children: Sequence[Token], follows: Callable[[str], bool], keep: bool) -> list[Token]:
    out: list[Token] = []
    open_links: list[tuple[str, bool, int]] = []  # the address to write out, whether the link stays, where it begins
    for child in children:
        if child.type == "link_open":
            address = str(child.attrGet("href") or "")
            stays, bare = keep or follows(address), child.markup in ("linkify", "autolink") or follows(address)
            open_links.append(("" if bare else address, stays, len(out)))
            out += [child] if stays else []
        elif child.type == "link_close":
            address, stays, start = open_links.pop()
            shown = "".join(one.content for one in out[start:])
            out += [_text(f" ({address})")] if address not in ("", shown, f"mailto:{shown}") else []
            out += [child] if stays else []
        elif child.type == "image" and not follows(source := str(child.attrGet("src") or "")):
            label = "".join(one.content for one in child.children or ())
            out.append(_text(label + (f" ({source})" if source not in ("", label) else "")))
        else:
            out.append(child)
    return out
