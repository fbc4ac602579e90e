"""Text that can be stored: whatever comes from outside is made well-formed before it is a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
