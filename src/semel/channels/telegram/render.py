"""Render Markdown for Telegram: a plain text, and entities that format it. Without markup, nothing needs escaping.

`semel.channels.formatted_markdown` says what becomes of each kind of markup.
"""

from __future__ import annotations

from semel.channels.formatted_markdown import write_markdown
from semel.channels.formatted_text import FormattedText, count_utf16_units
from semel.channels.markdown import MAX_FORMATTED_CHARS
from semel.text.json_types import Json
from semel.text.visible import visible, visible_within
from semel.text.wellformed import scrub


def render(text: str, max_units: int) -> tuple[str, list[Json]]:
    """Render a Markdown text; returns (text, entities). If the result is empty or longer than `max_units` UTF-16 units,
    the Markdown is returned as written, without entities.

    Deterministic: the same text always gives the same result.
    """
    plain = render_plain(text, max_units)
    if len(text) > MAX_FORMATTED_CHARS:
        return plain, []
    try:
        runs = FormattedText()
        write_markdown(runs, text)
        rendered, entities = runs.result()
    except RecursionError:
        return plain, []
    if not rendered or count_utf16_units(rendered) > max_units:
        return plain, []
    return rendered, entities


def render_plain(text: str, max_units: int) -> str:
    """Return the text without formatting. Invisible characters are made visible if the text then fits `max_units`."""
    text = scrub(text.strip())
    return visible_within(text, count_utf16_units(visible(text)) <= max_units)
