"""Invisible characters: they can hide the meaning of a text, the end of a name, or an imitated mark."""

from __future__ import annotations

import re
from unicodedata import category

_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and a symbol without a glyph: the Hangul fillers and the empty Braille pattern."""
_MARKS = "\u034f\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Combining marks without a glyph: the grapheme joiner, two Khmer vowels, variation selectors."""
_RESERVED = "\u2065\ufff0-\ufff8\U000e0000-\U000e0fff"
"""Unassigned code points that renderers ignore (Unicode property Default_Ignorable_Code_Point)."""
_IGNORED = re.compile(f"[{_FILLERS}{_MARKS}{_RESERVED}]")
JOINERS = "\u200c\u200d"
"""Zero-width joiner and non-joiner: harmless, and needed in Persian words and emoji."""
_KINDS = frozenset(("Cc", "Cf", "Zl", "Zp"))
_RUNS = re.compile(r"\s+")


def is_unseen(sign: str) -> bool:
    """Whether a character has no glyph of its own: a control, format or filler character. A blank does not count."""
    return category(sign) in _KINDS or _IGNORED.match(sign) is not None


def seen(text: str, keep: str = "") -> str:
    """Remove invisible characters, except those in `keep`. Blanks stay; line ends are control characters and go."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([sign for sign in text if sign in keep or not is_unseen(sign)])


def squeeze_to_line(text: str) -> str:
    """The text on one line: each run of white space becomes one blank, and invisible characters are removed."""
    return " ".join(seen(_RUNS.sub(" ", text)).split())
