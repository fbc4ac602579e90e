"""Characters that cannot be seen: they hide what a text says, how a name ends, or that a mark is imitated."""

from __future__ import annotations

import re
from unicodedata import category

_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and a symbol without a shape: fillers of Hangul, and the empty pattern of Braille."""
_MARKS = "\u034f\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Combining marks without a shape: the joiner, two vowels of Khmer, selectors of variants."""
_RESERVED = "\u2065\ufff0-\ufff8\U000e0000-\U000e0fff"
"""Not assigned, and ignored where it is shown (Unicode: Default_Ignorable_Code_Point)."""
_IGNORED = re.compile(f"[{_FILLERS}{_MARKS}{_RESERVED}]")
JOINERS = "\u200c\u200d"
"""Persian words and emoji are written with them; they move nothing."""
_KINDS = frozenset(("Cc", "Cf", "Zl", "Zp"))
_RUNS = re.compile(r"\s+")


def is_unseen(sign: str) -> bool:
    """Whether a character has no shape of its own: a control, a format character, a filler. Blanks are not meant."""
    return category(sign) in _KINDS or _IGNORED.match(sign) is not None


def seen(text: str, keep: str = "") -> str:
    """A text without them, but for those in `keep`. Blanks stay; line ends are controls and go."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([sign for sign in text if sign in keep or not is_unseen(sign)])


def squeezed(text: str) -> str:
    """On one line, as it reads: each run of white space is one blank, and nothing is in it that cannot be seen."""
    return " ".join(seen(_RUNS.sub(" ", text)).split())
