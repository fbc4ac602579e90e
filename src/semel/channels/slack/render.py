"""Render Markdown for Slack: a `markdown` block, and the same as mrkdwn for where no block is taken.

A `markdown` block holds the Markdown as the agent wrote it, and Slack renders it
(https://docs.slack.dev/reference/block-kit/blocks/markdown-block). mrkdwn is Slack's own mark-up: the text of a
notification, of a file, and of a message whose blocks Slack refused.

| Markdown | mrkdwn |
|---|---|
| bold, italic, struck, code, links, quotes | the same, in Slack's marks |
| headings | bold lines |
| lists | lines with a bullet or their number |
| tables, code fences | a code block |
| images | a link with the image's alternative text |

Nobody is notified by accident: `<!channel>`, `<!here>`, `<!everyone>` and groups are shown, not called. People are
mentioned as `<@U0123>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it.tree import SyntaxTreeNode as Node

from semel.channels.markdown import MAX_FORMATTED_CHARS, parse
from semel.channels.text_table import draw_table
from semel.text.visible import visible, visible_within
from semel.text.wellformed import scrub

MAX_VISIBLE_CHARS = 10_000
"""Characters of a text with stand-ins for its control characters. A `markdown` block has at most 12,000."""
MAX_TEXT_CHARS = 40_000
"""Characters of a text, beyond which Slack cuts it."""
MAX_NOTIFICATION_CHARS = 3_000
"""Characters of the text beside blocks: readers see it in notifications only."""
MAX_EDIT_TEXT_BYTES = 4_000
"""Bytes of the text of an edit, also beside blocks. Slack documents 4,000 characters, and was seen to count bytes."""
BULLET = "• "
RULE = "———"
_CALLS = re.compile(r"<(?=!(?:channel|here|everyone|subteam\^))", re.I)
_MENTION = re.compile(r"&lt;@([UW][A-Z0-9]{1,40})&gt;")
_WORD_JOINER = "\u2060"
_MARKS = {"strong": "*", "em": "_", "s": "~"}
_LINK = re.compile(r"(?:https?|mailto|slack):\S+", re.I)


def render_markdown(text: str) -> str:
    """Return the text of a `markdown` block: the Markdown as written, without calls to whole channels."""
    return _CALLS.sub("<" + _WORD_JOINER, _show(text))


def render_mrkdwn(text: str) -> str:
    """Render Markdown as mrkdwn. A text that is too long or nests too deep is escaped, and stays as it was written."""
    plain = _show(text)
    if len(plain) > MAX_FORMATTED_CHARS:
        return escape(plain)
    try:
        rendered = _Blocks().render(Node(parse(plain)).children)
    except RecursionError:
        return escape(plain)
    return rendered or escape(plain)


def _show(text: str) -> str:
    """Return a text in which control characters can be seen, if it then still fits into a block."""
    plain = scrub(text.strip())
    return visible_within(plain, len(visible(plain)) <= MAX_VISIBLE_CHARS)


def escape(text: str) -> str:
    """Escape a text for mrkdwn. A mention of a person stays a mention."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MENTION.sub(r"<@\1>", escaped)


class _Blocks:
    """Renders block tokens. Blocks are separated as in the source: by a blank line, or only by a line break."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._next_line = 0
        self._prefix = ""
        self._depth = 0

    def render(self, nodes: Sequence[Node]) -> str:
        self._walk(nodes)
        return "\n".join(self._lines)

    def _walk(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            match node.type:
                case "paragraph":
                    self._add(node, _inline(node.children))
                case "heading":
                    self._add(node, f"*{_inline(node.children, bold=True)}*")
                case "fence" | "code_block":
                    self._add(node, _code_block(node.content), block=True)
                case "table":
                    self._add(node, _code_block(_table(node)), block=True)
                case "hr":
                    self._add(node, RULE)
                case "blockquote":
                    self._quote(node)
                case "bullet_list" | "ordered_list":
                    self._list(node)
                case _:
                    self._add(node, escape(node.content))

    def _add(self, node: Node, text: str, block: bool = False) -> None:
        start, end = node.map or (self._next_line, self._next_line)
        if self._lines and start > self._next_line:
            self._lines.append("")
        self._next_line = end
        indent = "  " * max(0, self._depth - 1) + self._prefix if self._prefix else "" if block else "  " * self._depth
        self._prefix = ""
        lines = text.split("\n")
        if block and indent:
            self._lines.append(indent.rstrip())
            indent = ""
        self._lines += [indent + lines[0], *lines[1:]]

    def _quote(self, node: Node) -> None:
        inner = _Blocks()
        start, end = node.map or (0, 0)
        inner._next_line = start
        quoted = inner.render(node.children)
        self._add(node, "\n".join(f"> {line}" for line in quoted.split("\n")))
        self._next_line = end

    def _list(self, node: Node) -> None:
        self._depth += 1
        for item in node.children:
            self._prefix = BULLET if node.type == "bullet_list" else f"{item.info}{item.markup} "
            if not item.children:
                self._add(item, "")
            self._walk(item.children)
        self._depth -= 1
        self._prefix = ""


def _code_block(content: str) -> str:
    return f"```\n{escape(content.rstrip())}\n```"


def _table(node: Node) -> str:
    return draw_table([[_plain(cell.children) for cell in row.children] for row in node.walk() if row.type == "tr"])


def _inline(nodes: Sequence[Node], bold: bool = False) -> str:
    """Render inline nodes. `bold`: they are inside a bold text, in which another mark of bold would end it."""
    return "".join(_render_node(node, bold) for node in nodes)


def _render_node(node: Node, bold: bool) -> str:
    match node.type:
        case "softbreak" | "hardbreak":
            return "\n"
        case "code_inline":
            return f"`{escape(node.content)}`"
        case "image":
            return _link(str(node.attrGet("src") or ""), node.children, bold)
        case "link" if node.markup not in ("linkify", "autolink"):
            return _link(str(node.attrGet("href") or ""), node.children, bold)
        case "strong" | "em" | "s":
            inner = _inline(node.children, bold or node.type == "strong")
            mark = "" if bold and node.type == "strong" else _MARKS[node.type]
            return f"{mark}{inner}{mark}" if inner.strip() else inner
        case "inline" | "link":
            return _inline(node.children, bold)
        case _:
            return escape(node.content)


def _link(url: str, inside: Sequence[Node], bold: bool) -> str:
    label = _plain(inside).replace("\n", " ").strip()
    if not label or label == url or url.endswith(f"://{label}"):
        return escape(url)
    if _LINK.fullmatch(url) and "|" not in url and ">" not in url:
        return f"<{url.replace('&', '&amp;').replace('<', '%3C')}|{escape(label).replace('|', '¦')}>"
    return _inline(inside, bold) + (f" ({escape(url)})" if url else "")


def _plain(nodes: Sequence[Node]) -> str:
    return "".join("\n" if n.type.endswith("break") else _plain(n.children) if n.children else n.content for n in nodes)
