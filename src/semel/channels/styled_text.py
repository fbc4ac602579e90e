"""Render Markdown as text that contains its marks, as XMPP (XEP-0393) and WhatsApp show it.

`*strong*`, `_emphasis_`, `~struck~`, `` `code` ``, "> " quotes and ``` blocks. Markup is removed or replaced; no other
character changes. Marks that clients would not recognize (inside a word, next to a space) are left out. The same text
always gives the same body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markdown_it.tree import SyntaxTreeNode as Node

from semel.channels.markdown import MAX_FORMATTED_CHARS, follows_no_links, parse, write_out_links
from semel.text.visible import visible, visible_within

MARKS = {"strong": "*", "em": "_", "s": "~"}


def render_styled(text: str, fits: Callable[[str], bool], *, languages: bool) -> str:
    """Return the body for a Markdown text. If that would not fit, the text stays as it was written.

    `fits`: returns whether a body is short enough. `languages`: whether a code block begins with the name of its
    language.
    """
    plain = visible_within(text, fits(visible(text)))
    if len(text) > MAX_FORMATTED_CHARS:
        return plain
    tokens = parse(visible(text))
    write_out_links(tokens, follows_no_links)
    for token in tokens:
        if token.type == "fence" and not languages:
            token.info = ""
    try:
        body = "\n".join(_blocks(Node(tokens).children)).rstrip()
    except RecursionError:  # hundreds of marks inside one another
        return plain
    return body if body.strip() and fits(body) else plain


# ---------------------------------------------------------------- blocks


def _blocks(nodes: Sequence[Node], tight: bool = False) -> list[str]:
    """Render blocks as lines. Blocks are separated by empty lines, except in tight list items (`tight`)."""
    lines: list[str] = []
    for node in nodes:
        block = _block(node)
        lines += ["", *block] if lines and not tight else block
    return lines


def _block(node: Node) -> list[str]:
    match node.type:
        case "paragraph":
            return _render_inline(node.children).split("\n")
        case "heading":
            return _wrap_in_marks("*", _render_inline(node.children), "").split("\n")
        case "blockquote":
            return [f"> {line}".rstrip() for line in _blocks(node.children)]
        case "bullet_list" | "ordered_list":
            return _items(node)
        case "table":
            return _fenced(_table(node), "")
        case "fence" | "code_block":
            return _fenced(node.content.removesuffix("\n").split("\n"), node.info.strip())
        case "hr":
            return ["---"]
    return [node.content] if node.content else []


def _items(node: Node) -> list[str]:
    lines: list[str] = []
    start = int(node.attrs.get("start", 1))
    for number, item in enumerate(node.children, start):
        tight = all(child.hidden for child in item.children if child.type == "paragraph")
        mark = "- " if node.type == "bullet_list" else f"{number}. "
        first, *rest = _blocks(item.children, tight) or [""]
        if first.startswith("```"):  # a code block must begin at the start of a line
            lines += [mark.rstrip(), first]
        else:
            lines.append(mark + first)
        lines += _indented(rest, " " * len(mark), first.startswith("```"))
    return lines


def _indented(lines: list[str], by: str, code: bool) -> list[str]:
    """Indent lines, except those of code blocks, which would break. `code`: whether the lines begin in a code block."""
    out = []
    for line in lines:
        fence = line.startswith("```")
        out.append(line if code or fence or not line else by + line)
        code = code != fence
    return out


def _fenced(lines: list[str], info: str) -> list[str]:
    """Return the lines as a code block; unchanged if one of them would end the block."""
    if any(line.startswith("```") for line in lines):
        return lines
    return ["```" + info, *lines, "```"]


def _table(node: Node) -> list[str]:
    rows = [[_text(cell.children) for cell in row.children] for row in node.walk() if row.type == "tr"]
    widths = [max(len(row[i]) if i < len(row) else 0 for row in rows) for i in range(max(map(len, rows)))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    return [lines[0], "-+-".join("-" * width for width in widths), *lines[1:]]


# ---------------------------------------------------------------- inside a line


def _render_inline(nodes: Sequence[Node]) -> str:
    """Render inline nodes as text, with marks around styled spans."""
    text = ""
    for node in nodes:
        text += _span(node, text)
    return text


def _span(node: Node, before: str) -> str:
    match node.type:
        case "inline":
            return _render_inline(node.children)
        case "strong" | "em" | "s":
            return _wrap_in_marks(MARKS[node.type], _render_inline(node.children), before)
        case "softbreak" | "hardbreak":
            return "\n"
        case "code_inline":
            return _wrap_in_marks("`", node.content, "")
    return node.content


def _wrap_in_marks(mark: str, text: str, before: str) -> str:
    """Put marks around each line of a text, because a styled span ends with its line (XEP-0393, 6.2).

    `before`: the text to the left. If it ends in a letter or digit, no marks are put: clients would not recognize them.
    """
    if mark in text or before[-1:].isalnum():
        return text
    return "\n".join(line if not line or line != line.strip() else mark + line + mark for line in text.split("\n"))


def _text(nodes: Sequence[Node]) -> str:
    """Return the text of nodes without marks, for tables: clients would show the marks there."""
    return "".join(_text(n.children) if n.children else " " if n.type.endswith("break") else n.content for n in nodes)
