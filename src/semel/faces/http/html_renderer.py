"""Render Markdown as HTML with markdown-it. The result is not sanitised yet (`markdown.py` does that)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import nh3
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from semel.channels.markdown import has_scheme, make_parser, parse, write_out_links


def render_markdown(text: str, schemes: frozenset[str]) -> str:
    """Return a text as HTML. Links of other schemes are written out as text."""
    tokens = parse(text)
    write_out_links(tokens, has_scheme(schemes))
    return _HtmlRenderer().render(tokens, _make_options(), {})


class _HtmlRenderer(RendererHTML):
    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        link = Token("link_open", "a", 1, attrs={"href": token.attrGet("src") or ""})
        label = self.renderInlineAsText(token.children or [], options, env) or str(token.attrGet("src"))
        return self.renderToken([link], 0, options, env) + nh3.clean_text(f"[image: {label}]") + "</a>"

    def _aligned(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Use an `align` attribute: markdown-it writes a style attribute, which the page's policy forbids."""
        token = tokens[idx]
        style = str(token.attrs.pop("style", ""))
        if style.startswith("text-align:"):
            token.attrs["align"] = style.removeprefix("text-align:")
        return self.renderToken(tokens, idx, options, env)

    th_open = _aligned
    td_open = _aligned


@functools.cache
def _make_options() -> OptionsDict:
    options = make_parser().options
    options["breaks"] = True
    return options
