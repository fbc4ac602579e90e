"""Render agent text as HTML: lossless Markdown (semel/channels/markdown.py), then sanitised with nh3.

Displayed text must not contact other hosts: images become links and are never loaded. Links open in a new tab without a
referrer. `html` is added to copies of entries, because other watchers share the same objects.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence

import nh3

from semel.text.json_types import Json
from semel.text.visible import visible

MAX_CACHED_CHARS = 16_384

MAX_CHARS_ON_LOOP = 8_192
"""Characters rendered on the event loop, in about 2 ms. Longer texts go to a thread, so that no turn waits."""

ALLOWED_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ALLOWED_ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}, "td": {"align"}, "th": {"align"}}
ALLOWED_SCHEMES = frozenset({"http", "https", "mailto", "tel", "xmpp", "matrix"})


@functools.cache
def _make_cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=ALLOWED_TAGS,
        clean_content_tags={"script", "style"},
        attributes=ALLOWED_ATTRIBUTES,
        url_schemes=set(ALLOWED_SCHEMES),
        url_relative="deny",  # relative links would lead to the gateway itself
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def render_html(text: str) -> str | None:
    """Render a text as sanitised HTML. Returns `None` for a text that is too long to render quickly: the page shows it
    as plain text."""
    from semel.channels.markdown import MAX_FORMATTED_CHARS  # only now: a start needs no parser

    if len(text) > MAX_FORMATTED_CHARS:
        return None
    return _render_cached(text) if len(text) <= MAX_CACHED_CHARS else _render_uncached(text)


@functools.lru_cache(maxsize=512)
def _render_cached(text: str) -> str:
    return _render_uncached(text)


def _render_uncached(text: str) -> str:
    from semel.faces.http.html_renderer import render_markdown

    return sanitise(render_markdown(visible(text), ALLOWED_SCHEMES))


def sanitise(html: str) -> str:
    """Remove every tag, attribute and URL scheme that is not listed above."""
    return _make_cleaner().clean(html)


def _is_rendered(entry: Json) -> bool:
    """Whether an entry is final agent text. Streaming text and people's words are shown as plain text."""
    return entry.get("role") == "agent" and not entry.get("live") and bool(entry.get("text"))


async def add_html(entries: Sequence[Json]) -> list[Json]:
    """Return the entries (or changes). Those whose text is shown as Markdown are replaced by copies with `html`."""
    chars = sum(len(entry["text"]) for entry in entries if _is_rendered(entry))
    if chars <= MAX_CHARS_ON_LOOP:
        return [_add_html(entry) for entry in entries]
    return await asyncio.to_thread(lambda: [_add_html(entry) for entry in entries])


def _add_html(entry: Json) -> Json:
    if entry.get("op", "entry") != "entry" or not _is_rendered(entry):
        return entry
    html = render_html(entry["text"])
    return entry if html is None else {**entry, "html": html}
