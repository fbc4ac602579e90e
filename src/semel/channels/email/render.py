"""Render Markdown as HTML for mail, without active content and without anything that is loaded from the network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import nh3
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from semel.channels.markdown import MAX_FORMATTED_CHARS, has_scheme, make_parser, parse, write_out_links

_TAGS = {
    *("a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre"),
    *("s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
_SCHEMES = frozenset({"http", "https", "mailto", "tel", "xmpp", "matrix"})
_STYLES = {
    "<pre>": '<pre style="background:#f5f5f5;padding:8px;white-space:pre-wrap">',
    "<blockquote>": '<blockquote style="border-left:3px solid #ccc;margin-left:0;padding-left:12px">',
    "<table>": '<table border="1" cellpadding="4" style="border-collapse:collapse">',
}
_PAGE = '<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head><body>\n{}\n</body></html>\n'


class _EmailRenderer(RendererHTML):
    """Renders images as links: a remote image would tell its server when the mail is read."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        label = self.renderInlineAsText(token.children or [], options, env)
        return f'<a href="{nh3.clean_text(str(token.attrGet("src") or ""))}">{nh3.clean_text(f"[image: {label}]")}</a>'


@cache
def _options() -> OptionsDict:
    options = make_parser().options
    options["breaks"] = True
    return options


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "ol": {"start"}, "td": {"align"}, "th": {"align"}},
        url_schemes=set(_SCHEMES),
        url_relative="deny",  # in a mail, relative links have no base
        link_rel=None,
    )


def render_page(text: str) -> str | None:
    """Return a complete HTML document for the text, or None if the text is too long to be formatted."""
    if len(text) > MAX_FORMATTED_CHARS:
        return None
    tokens = parse(text)
    write_out_links(tokens, has_scheme(_SCHEMES))
    body = _cleaner().clean(_EmailRenderer().render(tokens, _options(), {}))
    for tag, styled in _STYLES.items():
        body = body.replace(tag, styled)
    return _PAGE.replace("{}", body.strip())
