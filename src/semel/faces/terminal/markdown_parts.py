"""The Markdown of an agent's message as the terminal reads it, and where a long one is divided into parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from semel.channels.markdown import follows_no_links, make_parser, split_fence_info, write_out_links

_TASK = re.compile(r"^\[([ xX])\](?=\s)")
_SUMMARY = re.compile(r"<summary>\s*")
_DETAILS = re.compile(r"<details(?: open)?>\s*(?:<summary>\s*)?")
_DETAILS_END = re.compile(r"\s*</details>\s*$")

_NOTE = re.compile(r"\[\^([^\]\s]{1,40})\]")
NOTE_SCHEME = "footnote:"  # of the links from a mark to its footnote; the name follows
MARK_SCHEME = "footnote-mark:"  # of the links from a footnote back to a mark; the name follows

MAX_PART_CHARS = 8_000  # after which a part of an agent's message ends with its block, or with a line of code


def make_terminal_parser() -> MarkdownIt:
    """Make a Markdown parser with the rules of chats: line breaks are kept, and links show their address.

    The signs of a task become a box, and the tags of <details> become ▾ before the summary and ▴ at the end. Marks of
    footnotes are links to these, which `holds_target` finds.
    """
    parser = make_parser()
    parser.core.ruler.disable("whole_fences")  # streamed text needs one widget per block
    parser.core.ruler.push("for_the_terminal", _adapt_tokens)
    return parser


def _adapt_tokens(state: StateCore) -> None:
    write_out_links(state.tokens, follows_no_links, keep=True)
    for before, token in pairwise(state.tokens):
        if token.type == "inline" and before.type == "paragraph_open" and token.children:
            token.children = _draw_details(token.children)
    for item, _, token in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if item.type == "list_item_open" and token.children and token.children[0].type == "text":
            token.children[0].content = _TASK.sub(_draw_box, token.children[0].content)
    for token in state.tokens:
        if token.type == "fence":
            token.info, language = split_fence_info(token.info)
            token.content = f"{language}\n{token.content}" if language else token.content
        if token.children and "[^" in token.content:
            token.children = _link_notes(token.children)
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"


def _draw_box(signs: re.Match[str]) -> str:
    return "☐" if signs[1] == " " else "☑"


def _draw_details(children: Sequence[Token]) -> list[Token]:
    """Draw the tags of <details> that begin or end a paragraph. Others stay as they were written."""
    drawn = list(children)
    texts = [child for child in drawn if child.type == "text"]
    if drawn[0].type == "text" and (tags := _DETAILS.match(drawn[0].content)):
        closing = next((text for text in texts if "</summary>" in text.content), None)
        is_split = tags[0] == drawn[0].content  # the summary is on the next line
        if is_split and len(drawn) > 2 and drawn[1].type == "softbreak" and drawn[2].type == "text":
            opening, tags = drawn[2], _SUMMARY.match(drawn[2].content)
        else:
            opening = drawn[0]
        if closing is not None and tags and "<summary>" in tags[0]:
            drawn = drawn[drawn.index(opening) :]
            opening.content = f"▾ {opening.content[tags.end() :]}"
            summary, _, rest = closing.content.partition("</summary>")
            closing.content = summary
            at = drawn.index(closing) + 1
            if rest.strip():
                drawn[at:at] = [Token("hardbreak", "br", 0), Token("text", "", 0, content=rest.lstrip())]
    last = drawn[-1]
    if last.type == "text" and (tags := _DETAILS_END.search(last.content)):
        last.content = last.content[: tags.start()]
        drawn[-1:] = [*([last, Token("hardbreak", "br", 0)] if last.content else []), Token("text", "", 0, content="▴")]
    return drawn


def _link_notes(children: Sequence[Token]) -> list[Token]:
    """Make each mark of a footnote a link to the footnote, and the mark that begins the footnote a bold link back.

    All signs stay: what a link leads to may not have come yet.
    """
    drawn: list[Token] = []
    links = 0  # that are open
    for child in children:
        links += child.nesting if child.type.startswith("link_") else 0
        marks = [] if links or child.type != "text" else list(_NOTE.finditer(child.content))
        end = 0
        for mark in marks:
            is_first = mark.start() == 0 and (not drawn or drawn[-1].type.endswith("break"))
            begins = is_first and child.content.startswith(":", mark.end())
            address = (MARK_SCHEME if begins else NOTE_SCHEME) + mark[1]
            link = [Token("link_open", "a", 1, attrs={"href": address}), Token("text", "", 0, content=mark[0])]
            link.append(Token("link_close", "a", -1))
            bold = [Token("strong_open", "strong", 1), *link, Token("strong_close", "strong", -1)]
            drawn.append(Token("text", "", 0, content=child.content[end : mark.start()]))
            drawn += bold if begins else link
            end = mark.end()
        drawn.append(Token("text", "", 0, content=child.content[end:]) if marks else child)
    return drawn


def holds_target(text: str, address: str) -> bool:
    """Whether a text of Markdown has what a link leads to: the beginning of a footnote, or a mark of it."""
    scheme, _, name = address.partition(":")
    begins = rf"^[ >]{{0,9}}\[\^{re.escape(name)}\]:"
    if scheme != MARK_SCHEME.removesuffix(":"):
        return re.search(begins, text, re.MULTILINE) is not None
    return f"[^{name}]" in re.sub(begins, "", text, flags=re.MULTILINE)


@cache
def _block_parser() -> MarkdownIt:
    """Return a parser that finds blocks alone: it does not read what is in their lines."""
    parser = make_parser()
    parser.core.ruler.enableOnly(["normalize", "block", "whole_lists"])
    return parser


class Part(NamedTuple):
    """A part of a Markdown text. `opening`: the line that opens its code block again, if it begins within one.
    `continues`: whether it begins within a block, so that no blank line stands above it.
    """

    start: int
    opening: str = ""
    continues: bool = False


def split_parts(text: str) -> list[Part]:
    """Return the parts of a Markdown text."""
    parts = [Part(0)]
    while (part := find_next_part(text, parts[-1], parts[-1].start)).start < len(text):
        parts.append(part)
    return parts


def find_next_part(text: str, part: Part, shown: int) -> Part:
    """Return the part behind one of a long Markdown text: it begins where a block begins behind a blank line, or within
    one that is too long (at a line of code, an item of a list, or a block or item of a quotation), after MAX_PART_CHARS
    and after what is `shown` already; at the end of the text if there is no such place yet.
    """
    earliest = max(part.start + MAX_PART_CHARS, shown)
    window = MAX_PART_CHARS
    while len(text) > earliest:
        piece = part.opening + text[part.start : earliest + window]
        lines = piece.split("\n")
        offsets = list(accumulate((len(line) + 1 for line in lines), initial=part.start - len(part.opening)))
        tokens = _block_parser().parse(piece)
        blocks = [token for token in tokens if token.map and token.level == 0]
        for block in blocks:
            if block.map and offsets[first := block.map[0]] >= earliest and not lines[first - 1].strip():
                return Part(offsets[first])
        for block in blocks:
            inner_lines = range(block.map[0] + 1, block.map[1] - 1) if block.type == "fence" and block.map else ()
            for line in inner_lines:
                if offsets[line] >= earliest:
                    return Part(offsets[line], f"{block.markup}{split_fence_info(block.info)[0]}\n", continues=True)
        for line, continues in _list_inner_starts(tokens):
            if offsets[line] >= earliest and line < len(lines) - 1:  # what is on an unfinished line may be no block
                return Part(offsets[line], continues=continues)
        if earliest + window >= len(text):
            break
        window *= 2
    return Part(len(text))


def _list_inner_starts(tokens: Sequence[Token]) -> Iterator[tuple[int, bool]]:
    """List the lines at which an item of a list begins, or a block or item within quotations, and whether that is
    within the outermost block. What begins there is the same without the text above: an item keeps its number.
    """
    containers: list[str] = []
    first_line = 0  # of the outermost block
    for token in tokens:
        if token.nesting < 0:
            containers.pop()
            continue
        if token.map and not containers:
            first_line = token.map[0]
        is_item = token.type == "list_item_open" or containers[-1:] == ["blockquote_open"]
        if token.map and is_item and all(kind == "blockquote_open" for kind in containers[:-1]):
            yield token.map[0], token.map[0] > first_line
        if token.nesting > 0:
            containers.append(token.type)
