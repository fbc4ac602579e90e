"""The entities that Telegram finds by itself in what a person wrote: commands, mentions, links."""

from __future__ import annotations

import re
from typing import Any

from semel.testing.telegram.text import utf16

_FOUND = (
    ("bot_command", re.compile(r"(?<!\S)/[A-Za-z0-9_]{1,32}(?:@\w{3,32})?")),
    ("url", re.compile(r"https?://\S+")),
    ("mention", re.compile(r"(?<![\w/@])@\w{3,32}")),
)


def found_in(text: str) -> list[dict[str, Any]]:
    """MessageEntity objects, in order, none inside another."""
    spans: list[tuple[int, int, str]] = []
    for kind, pattern in _FOUND:
        for match in pattern.finditer(text):
            lo, hi = match.span()
            if not any(a < hi and lo < b for a, b, _ in spans):
                spans.append((lo, hi, kind))
    return [{"type": kind, "offset": utf16(text[:lo]), "length": utf16(text[lo:hi])} for lo, hi, kind in sorted(spans)]
