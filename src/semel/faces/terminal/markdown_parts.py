"""The Markdown of an agent's message as the terminal reads it, and where a long one is divided into parts."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore

from semel.channels.markdown import follows_no_links, make_parser, split_fence_info, write_out_links

MAX_PART_CHARS = 8_000  # after which a part of an agent's message ends with its block


def make_terminal_parser() -> MarkdownIt:
    """Make a Markdown parser with the rules of chats: line breaks are kept, and links show their address."""
    parser = make_parser()
    parser.core.ruler.disable("whole_fences")  # streamed text needs one widget per block
    parser.core.ruler.push("for_the_terminal", _adapt_tokens)
    return parser


def _adapt_tokens(state: StateCore) -> None:
    write_out_links(state.tokens, follows_no_links, keep=True)
    for token in state.tokens:
        if token.type == "fence":
            token.info, language = split_fence_info(token.info)
            token.content = f"{language}\n{token.content}" if language else token.content
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"


@cache
def _block_parser() -> MarkdownIt:
    """Return a parser that finds blocks alone: it does not read what is in their lines."""
    parser = make_parser()
    parser.core.ruler.enableOnly(["normalize", "block", "whole_lists"])
    return parser


def split_parts(text: str) -> list[int]:
    """Return where each part of a Markdown text begins."""
    starts = [0]
    while (end := find_block_start(text, starts[-1], starts[-1])) < len(text):
        starts.append(end)
    return starts


def find_block_start(text: str, start: int, shown: int) -> int:
    """Return where a part of a long Markdown text that begins at `start` may end: where a block begins behind a blank
    line, after MAX_PART_CHARS and after what is `shown` already; at the end of the text if there is no such place yet.
    """
    earliest = max(start + MAX_PART_CHARS, shown)
    if len(text) <= earliest:
        return len(text)
    window = MAX_PART_CHARS
    while True:
        piece = text[start : earliest + window]
        lines = piece.split("\n")
        starts = {token.map[0] for token in _block_parser().parse(piece) if token.map and token.level == 0}
        offset = start
        for number, line in enumerate(lines):
            if offset >= earliest and number in starts and not lines[number - 1].strip():
                return offset
            offset += len(line) + 1
        if earliest + window >= len(text):
            return len(text)
        window *= 2
