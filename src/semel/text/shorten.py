"""Shorten texts to a maximum number of characters."""

from __future__ import annotations


def shorten(text: str, max_chars: int) -> str:
    """The text, or its beginning and "…" if it has more than `max_chars` characters."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def shorten_to_line(text: str, max_chars: int) -> str:
    """The text on one line, each run of white space one blank, cut like `shorten`."""
    return shorten(" ".join(text.split()), max_chars)
