"""Render parsed Markdown as HTML without images: what a platform gets that shows HTML."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

HTML_OPTIONS = OptionsDict(
    {
        "maxNesting": 20, "html": False, "linkify": False, "typographer": False, "quotes": "", "xhtmlOut": False,
        "breaks": True, "langPrefix": "language-", "highlight": None, "store_labels": False,
    }
)  # fmt: skip


class ImagelessRenderer(RendererHTML):
    """Writes an image as a link with its alternative text, so that clients load nothing unasked."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        src = str(token.attrGet("src") or "")
        label = self.renderInlineAsText(token.children or [], options, env) or src
        return f'<a href="{escape_html(src)}">{escape_html(label)}</a>'


def escape_html(text: str) -> str:
    """Return a text as HTML, also inside an attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
