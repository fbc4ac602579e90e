"""Render Markdown as org.matrix.custom.html, with only the tags that the spec allows ("m.room.message msgtypes").

Remote images become links, so that clients load nothing unasked. A user id becomes a link, which clients show as the
user's name, and is returned as a mention for `m.mentions`, so that the user is notified. `@room` notifies nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote, unquote

import nh3
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from semel.channels.markdown import MAX_FORMATTED_CHARS, has_scheme, parse, write_out_links
from semel.channels.markdown_html import HTML_OPTIONS, ImagelessRenderer, escape_html
from semel.text.visible import visible
from semel.text.wellformed import scrub

TAGS = {
    "del", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "p", "a", "ul", "ol", "li", "strong", "em", "s", "code",
    "hr", "br", "table", "thead", "tbody", "tr", "th", "td", "pre",
}  # fmt: skip
ATTRIBUTES = {"a": {"href"}, "ol": {"start"}, "code": {"class"}}
SCHEMES = frozenset({"http", "https", "ftp", "mailto", "magnet"})
_USER = re.compile(r"(?<![\w@/.:#])@[a-z0-9._=/+-]+:(?:[A-Za-z0-9-]+\.)*[A-Za-z0-9-]+(?::\d{1,5})?(?![\w-])")
_LINK_PREFIX = "https://matrix.to/#/"
_INSIDE = "inside a link"


@dataclass(frozen=True)
class Rendered:
    """A rendered text. `html` is None if the text has no formatting or is too long. `mentions` are user ids."""

    body: str
    html: str | None = None
    mentions: tuple[str, ...] = ()


def render(text: str) -> Rendered:
    """Render a message. Its plain body is the Markdown as written, since that is readable by itself."""
    body = scrub(visible(text))
    if len(body) > MAX_FORMATTED_CHARS:
        return Rendered(body)
    tokens = parse(body)
    write_out_links(tokens, has_scheme(SCHEMES))
    mentions = tuple(dict.fromkeys(_find_mentions(tokens)))
    if not mentions and all(_is_plain(token) for token in tokens):
        return Rendered(body)
    html = _cleaner().clean(_MatrixRenderer().render(tokens, HTML_OPTIONS, {})).strip()
    return Rendered(body, html, mentions)


class _MatrixRenderer(ImagelessRenderer):
    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        text = tokens[idx].content
        pieces, position = [], 0
        for mention in () if tokens[idx].meta.get(_INSIDE) else _USER.finditer(text):
            href = _LINK_PREFIX + quote(mention[0], safe="@:")
            pieces += [
                escape_html(text[position : mention.start()]),
                f'<a href="{escape_html(href)}">{escape_html(mention[0])}</a>',
            ]
            position = mention.end()
        return "".join(pieces) + escape_html(text[position:])


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=set(SCHEMES),
        url_relative="deny",
        link_rel=None,
        attribute_filter=_attribute,
    )


def _attribute(tag: str, name: str, value: str) -> str | None:
    return value if (tag, name) != ("code", "class") or value.startswith("language-") else None


def _is_plain(token: Token) -> bool:
    """Whether a block has no formatting, so that it looks the same as plain text."""
    if token.type == "inline":
        return all(child.type in ("text", "softbreak") for child in token.children or [])
    return token.type in ("paragraph_open", "paragraph_close") and token.level == 0


def _find_mentions(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the user ids that a text mentions, directly or by a link. Also marks text tokens that are inside a link."""
    for block in tokens:
        depth = 0
        for token in block.children or []:
            depth += (token.type == "link_open") - (token.type == "link_close")
            if token.type == "link_open":
                href = str(token.attrGet("href") or "")
                if href.startswith(_LINK_PREFIX) and _USER.fullmatch(user := unquote(href.removeprefix(_LINK_PREFIX))):
                    yield user
            elif token.type == "text" and depth:
                token.meta[_INSIDE] = True
            elif token.type == "text":
                yield from _USER.findall(token.content)
