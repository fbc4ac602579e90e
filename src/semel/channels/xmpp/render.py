"""Render Markdown as XEP-0393 message styling."""

from __future__ import annotations

from semel.channels.styled_text import render_styled


def render(text: str, most: int) -> str:
    """Return the body for a Markdown text. If it would exceed `most` bytes, the text stays as it was written."""
    return render_styled(text, lambda body: len(body.encode()) <= most, languages=True)
