"""Make text from outside well-formed, and shorten it, before it is stored or shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, overload

NUL_SYMBOL = "\u2400"
"""What is stored and shown in place of U+0000."""
UNSTORABLE_ESCAPE = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
"""Matches the escapes in a line of JSON from which a parser may make text that `scrub` changes."""
MAX_NAME_CHARS = 200
"""The maximum length of the name of a person or chat, in characters."""
MAX_REASON_CHARS = 400
"""The maximum length of an error text from outside, in characters."""


@overload
def scrub(value: str) -> str: ...
@overload
def scrub(value: Any) -> Any: ...
def scrub(value: Any) -> Any:
    """Replace what cannot be stored, in a text or in all texts of a JSON value.

    A lone surrogate (from a program that cuts an emoji in half, or a file name that is not UTF-8) cannot be encoded as
    UTF-8 and becomes U+FFFD. U+0000 ends a text for many programs, and PostgreSQL stores none; it becomes U+2400 (␀).
    Tuples become lists. Raises RecursionError if the value is nested too deeply.
    """
    if isinstance(value, str):
        text = value.replace("\0", NUL_SYMBOL)
        return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list | tuple):
        return [scrub(inner) for inner in value]
    if isinstance(value, Mapping):
        return {scrub(name): scrub(inner) for name, inner in value.items()}
    return value


def one_line(text: str, max_chars: int) -> str:
    """Put the text on one line, replace unprintable characters by blanks, and shorten it to `max_chars` characters."""
    shown = "".join(char if char.isprintable() else " " for char in scrub(text[: 16 * max_chars]))
    return shorten_to_line(shown, max_chars)


def shorten(text: str, max_chars: int) -> str:
    """Return the text; if it has more than `max_chars` characters, its beginning and "…", together `max_chars` long."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def shorten_to_line(text: str, max_chars: int) -> str:
    """Put the text on one line, with each run of white space as one blank, and `shorten` it."""
    return shorten(" ".join(text.split()), max_chars)
