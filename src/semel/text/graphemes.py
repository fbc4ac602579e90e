"""Grapheme boundaries: find out whether a cut would tear one visible character apart.

A subset of UAX 29's extended grapheme clusters: combining marks, joined emoji, flags, emoji modifiers, Hangul
syllables, CR LF and surrogate pairs. Script-specific rules are not implemented.
"""

from __future__ import annotations

import unicodedata

_ZWJ = "\u200d"


def is_inside_grapheme(text: str, at: int) -> bool:
    """Whether a cut before text[at] would tear one visible character apart."""
    if not 0 < at < len(text):
        return False
    before, char = text[at - 1], text[at]
    if before < "\u0300" and char < "\u0300":
        return before == "\r" and char == "\n"
    if before in "\r\n":
        return False
    return (
        _extends(char)
        or before == _ZWJ
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= char <= "\udfff")
        or (_flag(before) and _flag(char) and _odd_flags(text, at))
        or _hangul(before, char)
    )


def _extends(char: str) -> bool:
    return (
        unicodedata.category(char)[0] == "M"
        or char in "\u200d\u200c"
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags: subdivision flags
    )


def _flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _odd_flags(text: str, at: int) -> bool:
    """Whether an odd number of regional indicators precedes `at`: then the last of them is the first half of a flag."""
    start = at
    while start and at - start < 64 and _flag(text[start - 1]):
        start -= 1
    return (at - start) % 2 == 1


def _hangul(before: str, char: str) -> bool:
    lead = "\u1100" <= before <= "\u115f"
    vowel = "\u1160" <= before <= "\u11a7"
    syllable = "\uac00" <= before <= "\ud7a3"
    tail = "\u11a8" <= before <= "\u11ff"
    if "\u1160" <= char <= "\u11a7":
        return lead or vowel or syllable
    if "\u11a8" <= char <= "\u11ff":
        return vowel or syllable or tail
    return lead and ("\u1100" <= char <= "\u115f" or "\uac00" <= char <= "\ud7a3")
