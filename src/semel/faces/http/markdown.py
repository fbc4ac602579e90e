"""Render agent text as HTML: lossless Markdown (semel/channels/markdown.py), then sanitised with nh3.

Displayed text must not contact other hosts: images become links and are never loaded. Links open in a new tab without a
referrer.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import nh3
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from semel.channels.markdown import MAX_FORMATTED_CHARS, has_scheme, parse, reader, spell_links
from semel.text.visible import visible

MAX_CACHED_CHARS = 16_384

TAGS = {
    *(
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
    ),
    *("pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}, "td": {"align"}, "th": {"align"}}
SCHEMES = frozenset({"http", "https", "mailto", "tel", "xmpp", "matrix"})


class _Renderer(RendererHTML):
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
def _options() -> OptionsDict:
    options = reader().options
    options["breaks"] = True
    return options


@functools.cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=TAGS,
        clean_content_tags={"script", "style"},
        attributes=ATTRIBUTES,
        url_schemes=set(SCHEMES),
        url_relative="deny",  # relative links would lead to the gateway itself
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def render(text: str) -> str | None:
    """Sanitised HTML; `None` for text too long to render quickly, which the page then shows as plain text."""
    if len(text) > MAX_FORMATTED_CHARS:
        return None
    return _remembered(text) if len(text) <= MAX_CACHED_CHARS else _render(text)


@functools.lru_cache(maxsize=512)
def _remembered(text: str) -> str:
    return _render(text)


def _render(text: str) -> str:
    tokens = parse(visible(text))
    spell_links(tokens, has_scheme(SCHEMES))
    return sanitise(_Renderer().render(tokens, _options(), {}))


def sanitise(html: str) -> str:
    """Remove every tag, attribute and URL scheme that is not listed above."""
    return _cleaner().clean(html)
