"""Render Markdown as Discord shows it, which knows most of it
(https://support.discord.com/hc/en-us/articles/210298617).

| Markdown | on Discord |
|---|---|
| bold, italic, struck, code, fences, quotes, lists, links | the same |
| headings | the same down to the third level, then bold lines |
| tables | a code block with aligned columns |
| images | a link with the image's alternative text |
| `__bold__` | bold; Discord would underline it |
| what only Discord takes for markup: `||spoilers||`, `<@1>`, `-# small` | as it was written, with backslashes |

A backslash that only keeps a character from being markup is not seen. If they make a text too long, it is sent as it
was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it.tree import SyntaxTreeNode as Node

from semel.channels.markdown import MAX_FORMATTED_CHARS, parse
from semel.channels.text_table import draw_table
from semel.text.split import measure
from semel.text.visible import visible, visible_within
from semel.text.wellformed import scrub

RULE = "———"
MAX_HEADING = 3
_FENCE_BREAK = "`\u200b`\u200b`"
"""Three backticks inside a code block, which would end it: kept apart by characters without a width."""
_STYLES = {"strong": "**", "em": "*", "s": "~~"}
_LINK = re.compile(r"https?://[^\s<>]+", re.I)
_MARKUP = re.compile(r"[\\*~`|]|(?<!\w)_|_(?!\w)|<(?=[@#:/at])|\[(?=[^\]\n]*\]\()")
_LINE_START = re.compile(r"(?m)^( *)(?:(#{1,3}|-#|>{1,3}|[-+])(?=\s)|([0-9]{1,9})(?=[.)]\s))")


def render(text: str, max_units: int) -> str:
    """Return the text for a message. If it is empty or longer than `max_units` UTF-16 units, return the text as it was
    written. Deterministic: the same text always gives the same result.
    """
    plain = render_plain(text, max_units)
    if len(text) > MAX_FORMATTED_CHARS:
        return plain
    try:
        rendered = _blocks(Node(parse(visible(scrub(text)))).children).strip()
    except RecursionError:
        return plain
    return rendered if rendered and measure(rendered, "utf16") <= max_units else plain


def render_plain(text: str, max_units: int) -> str:
    """Return the text as it was written. Control characters get stand-ins, longer than they are if that fits."""
    text = scrub(text.strip())
    return visible_within(text, measure(visible(text), "utf16") <= max_units)


# ---------------------------------------------------------------- blocks


def _blocks(nodes: Sequence[Node]) -> str:
    """Render blocks. They are separated as in the source: by a blank line, or only by a line break."""
    pieces: list[str] = []
    end = 0
    for node in nodes:
        start = node.map[0] if node.map else end
        if pieces:
            pieces.append("\n" if start <= end else "\n\n")
        pieces.append(_block(node))
        end = _find_last_line(node, end)
    return "".join(pieces)


def _find_last_line(node: Node, default: int) -> int:
    """Return the source line after a block. (That of a list itself counts the empty lines after it.)"""
    while node.children and node.children[-1].map:
        node = node.children[-1]
    return node.map[1] if node.map else default


def _block(node: Node) -> str:
    match node.type:
        case "paragraph":
            return _LINE_START.sub(_escape_line_start, _inline(node.children))
        case "heading":
            level, text = int(node.tag[1:]), _inline(node.children)
            return f"{'#' * level} {text}" if level <= MAX_HEADING else _wrap("**", text)
        case "fence" | "code_block":
            return _code_block(node.content.rstrip("\n"), node.info, node.markup)
        case "table":
            rows = [[_plain_text(cell.children) for cell in row.children] for row in node.walk() if row.type == "tr"]
            return _code_block(draw_table(rows), "", "```")
        case "hr":
            return RULE
        case "blockquote":
            return "\n".join(f"> {line}".rstrip() for line in _blocks(node.children).split("\n"))
        case "bullet_list" | "ordered_list":
            return "\n".join(_item(node, item) for item in node.children)
    return _escape(node.content)


def _item(list_node: Node, item: Node) -> str:
    marker = "- " if list_node.type == "bullet_list" else f"{item.info}. "
    lines = _blocks(item.children).split("\n")
    return "\n".join([(marker + lines[0]).rstrip(), *(" " * len(marker) + line if line else "" for line in lines[1:])])


def _code_block(code: str, info: str, markup: str) -> str:
    if not code.strip():  # an empty fence is shown as it was written
        return _escape(markup + info)
    language = (info.split() or [""])[0]
    return f"```{language}\n{code.replace('```', _FENCE_BREAK)}\n```"


# ---------------------------------------------------------------- inside a line


def _inline(nodes: Sequence[Node]) -> str:
    return "".join(map(_inline_node, nodes))


def _inline_node(node: Node) -> str:
    match node.type:
        case "softbreak" | "hardbreak":
            return "\n"
        case "code_inline":
            return _code(node.content)
        case "image":
            return _link(str(node.attrGet("src") or ""), node.children)
        case "link" if node.markup in ("linkify", "autolink"):
            return _plain_text(node.children)
        case "link":
            return _link(str(node.attrGet("href") or ""), node.children)
        case "strong" | "em" | "s":
            return _wrap(_STYLES[node.type], _inline(node.children))
        case "inline":
            return _inline(node.children)
    return _escape(node.content)


def _wrap(mark: str, text: str) -> str:
    return f"{mark}{text}{mark}" if text.strip() else text


def _code(content: str) -> str:
    if "``" in content or content.startswith("`") or content.endswith("`"):
        return _escape(f"`{content}`")
    return f"``{content}``" if "`" in content else f"`{content}`"


def _link(url: str, inside: Sequence[Node]) -> str:
    """Render a link. An address that Discord does not link is written out after the text."""
    label = _plain_text(inside)
    if not label.strip() or label == url or url == f"mailto:{label}":
        return label if label.strip() else url
    if _LINK.fullmatch(url) and "]" not in label and not _LINK.search(label):
        return f"[{_inline(inside)}]({url.replace('(', '%28').replace(')', '%29')})"
    return _inline(inside) + (f" ({url})" if url else "")


def _plain_text(nodes: Sequence[Node]) -> str:
    """Return the text of inline nodes without marks; addresses of links are written out."""
    pieces = []
    for node in nodes:
        if node.type in ("softbreak", "hardbreak"):
            pieces.append(" ")
        elif node.type in ("link", "image") and node.markup not in ("linkify", "autolink"):
            url, label = str(node.attrGet("href") or node.attrGet("src") or ""), _plain_text(node.children)
            pieces.append(label + (f" ({url})" if url not in ("", label) else ""))
        else:
            pieces.append(_plain_text(node.children) if node.children else node.content)
    return "".join(pieces)


def _escape(text: str) -> str:
    return _MARKUP.sub(lambda match: "\\" + match[0], text)


def _escape_line_start(match: re.Match[str]) -> str:
    indent, mark, number = match.groups()
    return f"{indent}{number}\\" if number else f"{indent}\\{mark}"
