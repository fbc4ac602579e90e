"""Write Markdown into a `FormattedText`: a plain text, and entities that format it.

| Markdown | written as |
|---|---|
| bold, italic, struck, code, links, quotes | entities |
| code fences | a "pre" entity with its language |
| headings | bold lines |
| lists | lines with a bullet or their number |
| tables | a "pre" entity with aligned columns |
| images | a link with the image's alternative text |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from markdown_it.tree import SyntaxTreeNode as Node

from semel.channels.formatted_text import FormattedText
from semel.channels.markdown import parse
from semel.channels.text_table import draw_table
from semel.text.visible import visible
from semel.text.wellformed import scrub

BULLET = "• "
RULE = "———"
_LINK = re.compile(r"(?:https?|tg|ton)://\S+", re.I)
_STYLES = {"strong": "bold", "em": "italic", "s": "strikethrough"}


def write_markdown(runs: FormattedText, text: str) -> None:
    """Write a Markdown text into `runs`. Control characters are written as visible ones.

    Raises RecursionError if it is nested too deeply.
    """
    _Blocks(runs).walk(Node(parse(visible(scrub(text)))).children)


class _Blocks:
    """Writes block tokens to a FormattedText. Blocks are separated as in the Markdown source: by a blank line,
    or only by a line break."""

    def __init__(self, runs: FormattedText) -> None:
        self._runs = runs
        self._next_line = 0  # source line after the last block written
        self._prefix = ""  # prefix of the next block: a list item's bullet or number
        self._depth = 0  # nesting depth of lists

    def walk(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._walk_block(node)

    def _walk_block(self, node: Node) -> None:
        match node.type:
            case "paragraph":
                self._write_block(node, lambda: _write_inline(self._runs, node.children))
            case "heading":
                self._write_block(node, lambda: self._write_bold(node.children))
            case "fence" | "code_block":
                self._write_block(node, lambda: self._write_code(node), block=True)
            case "table":
                self._write_block(node, lambda: self._write_table(node), block=True)
            case "hr":
                self._write_block(node, lambda: self._runs.write(RULE))
            case "blockquote":
                with self._runs.marked("blockquote"):
                    self.walk(node.children)
            case "bullet_list" | "ordered_list":
                self._walk_list(node)
            case _:
                self._write_block(node, lambda: self._runs.write(node.content))

    def _write_block(self, node: Node, write: Callable[[], None], block: bool = False) -> None:
        """Write one block, by calling `write` at its place.

        `block`: the block begins on a line of its own and is not indented, as code and tables are.
        """
        start, end = node.map or (self._next_line, self._next_line)
        if self._runs:
            self._runs.write_separator("\n" if start <= self._next_line else "\n\n")
        self._next_line = end
        if self._prefix:
            self._runs.write("  " * (self._depth - 1) + self._prefix)
            self._runs.write("\n" if block else "")
        elif not block:
            self._runs.write("  " * self._depth)
        self._prefix = ""
        write()

    def _walk_list(self, node: Node) -> None:
        self._depth += 1
        for item in node.children:
            self._prefix = BULLET if node.type == "bullet_list" else f"{item.info}{item.markup} "
            if not item.children:
                self._write_block(item, lambda: None)
            self.walk(item.children)
        self._depth -= 1
        self._prefix = ""

    def _write_bold(self, nodes: Sequence[Node]) -> None:
        with self._runs.marked("bold"):
            _write_inline(self._runs, nodes)

    def _write_code(self, node: Node) -> None:
        if not node.content.strip():  # an empty fence is shown as it was written
            self._runs.write(node.markup + node.info)
            return
        language = node.info.split()[:1]
        with self._runs.marked("pre", **({"language": language[0]} if language else {})):
            self._runs.write(node.content.rstrip("\n"))

    def _write_table(self, node: Node) -> None:
        rows = [
            [_plain_text(cell.children, spells_links=True) for cell in row.children]
            for row in node.walk()
            if row.type == "tr"
        ]
        with self._runs.marked("pre"):
            self._runs.write(draw_table(rows))


def _write_inline(runs: FormattedText, nodes: Sequence[Node]) -> None:
    for node in nodes:
        _write_node(runs, node)


def _write_node(runs: FormattedText, node: Node) -> None:
    match node.type:
        case "softbreak" | "hardbreak":
            runs.write("\n")
        case "code_inline":
            with runs.marked("code"):
                runs.write(node.content)
        case "image":
            _write_link(runs, str(node.attrGet("src") or ""), node.children)
        case "link" if node.markup not in ("linkify", "autolink"):
            _write_link(runs, str(node.attrGet("href") or ""), node.children)
        case "inline" | "link":
            _write_inline(runs, node.children)
        case "strong" | "em" | "s":
            with runs.marked(_STYLES[node.type]):
                _write_inline(runs, node.children)
        case _:
            runs.write(node.content)


def _write_link(runs: FormattedText, url: str, inside: Sequence[Node]) -> None:
    """Write a link as an entity over its text. If its text is its address, only the text is written. An address whose
    scheme Telegram does not link is written out after the text."""
    label = _plain_text(inside)
    if not label.strip():
        runs.write(url)
    elif label == url or url.endswith(f"://{label}") or url == f"mailto:{label}":
        runs.write(label)
    elif _LINK.fullmatch(url) and not runs.spells_links:
        with runs.marked("text_link", url=url):
            _write_inline(runs, inside)
    else:
        _write_inline(runs, inside)
        runs.write(f" ({url})" if url else "")


def _plain_text(nodes: Sequence[Node], spells_links: bool = False) -> str:
    """Return the text of inline nodes without styles. `spells_links`: whether to write out the addresses of links."""
    runs = FormattedText(spells_links)
    _write_inline(runs, nodes)
    return runs.result()[0]
