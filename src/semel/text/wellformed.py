"""Text that can be stored: whatever comes from outside is made well-formed before it is a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.text.shorten import shorten_to_line

NAME = 200
"""The most characters of a person's or a place's name."""
WHY = 400
"""The most characters of a reason that somebody else gave."""


def scrub(value: Any) -> Any:
    """A text, or JSON with texts in it, without lone surrogates: U+FFFD stands for each.

    Half of an emoji (a program that cuts inside one, a file name that is no UTF-8) has no UTF-8 form. Nothing is
    refused for it. Tuples become lists. Raises RecursionError for nesting without end.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list | tuple):
        return [scrub(one) for one in value]
    if isinstance(value, Mapping):
        return {scrub(name): scrub(one) for name, one in value.items()}
    return value


def one_line(text: str, most: int) -> str:
    """On one line, without what cannot be seen, of at most so many characters."""
    shown = "".join(sign if sign.isprintable() else " " for sign in scrub(text[: 16 * most]))
    return shorten_to_line(shown, most)
