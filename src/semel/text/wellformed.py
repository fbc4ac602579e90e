"""Make text from outside well-formed before it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.text.shorten import shorten_to_line

MAX_NAME_CHARS = 200
"""The maximum length of the name of a person or chat, in characters."""
MAX_REASON_CHARS = 400
"""The maximum length of an error text from outside, in characters."""


def scrub(value: Any) -> Any:
    """Replace lone surrogates by U+FFFD in a text, or in all texts of a JSON value.

    A lone surrogate (from a program that cuts an emoji in half, or a file name that is not UTF-8) has no UTF-8 form.
    The value is repaired, not refused. Tuples become lists. Raises RecursionError if the value is nested too deeply.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list | tuple):
        return [scrub(one) for one in value]
    if isinstance(value, Mapping):
        return {scrub(name): scrub(one) for name, one in value.items()}
    return value


def one_line(text: str, most: int) -> str:
    """The text on one line, without unprintable characters, shortened to `most` characters."""
    shown = "".join(sign if sign.isprintable() else " " for sign in scrub(text[: 16 * most]))
    return shorten_to_line(shown, most)
