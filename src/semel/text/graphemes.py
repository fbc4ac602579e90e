"""Characters that belong together: grapheme boundaries, and Unicode NFC in linear time.

Graphemes are a subset of UAX 29's extended grapheme clusters: combining marks, joined emoji, flags, emoji modifiers,
Hangul syllables, CR LF and surrogate pairs. Script-specific rules are not implemented.
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise

_ZWJ = "\u200d"


def is_inside_grapheme(text: str, offset: int) -> bool:
    """Whether a cut before text[offset] would split one visible character."""
    if not 0 < offset < len(text):
        return False
    before, char = text[offset - 1], text[offset]
    if before < "\u0300" and char < "\u0300":
        return before == "\r" and char == "\n"
    if before in "\r\n":
        return False
    return (
        _extends_cluster(char)
        or before == _ZWJ
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= char <= "\udfff")
        or (_is_regional(before) and _is_regional(char) and _odd_flags(text, offset))
        or _joins_syllable(before, char)
    )


def _extends_cluster(char: str) -> bool:
    return (
        unicodedata.category(char)[0] == "M"
        or char in "\u200d\u200c"
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags: subdivision flags
    )


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _odd_flags(text: str, offset: int) -> bool:
    """Whether an odd number of regional indicators precedes `offset`. If so, the last of them is half of a flag."""
    start = offset
    while start and offset - start < 64 and _is_regional(text[start - 1]):
        start -= 1
    return (offset - start) % 2 == 1


def _joins_syllable(before: str, char: str) -> bool:
    lead = "\u1100" <= before <= "\u115f"
    vowel = "\u1160" <= before <= "\u11a7"
    syllable = "\uac00" <= before <= "\ud7a3"
    tail = "\u11a8" <= before <= "\u11ff"
    if "\u1160" <= char <= "\u11a7":
        return lead or vowel or syllable
    if "\u11a8" <= char <= "\u11ff":
        return vowel or syllable or tail
    return lead and ("\u1100" <= char <= "\u115f" or "\uac00" <= char <= "\ud7a3")


# ---------------------------------------------------------------- NFC

MAX_JOINING_RUN = 128
"""The maximum number of consecutive joining characters (`may_join_previous`) that `nfc` normalises as one piece.

Sorting one run of combining marks takes quadratic time (100,000 marks: half a minute), and no script writes more
than a few; UAX 15 calls 30 the longest that is meaningful.
"""


def may_join_previous(char: str) -> bool:
    """Whether NFC may merge or reorder this character with the ones before it.

    True for every combining mark, the vowels and tails of Hangul, and the Kirat Rai vowel signs. There may be false
    positives, but no false negatives (a test tries every composition that this Python knows).
    """
    if char < "\u0300":
        return False
    return (
        unicodedata.category(char)[0] == "M"
        or "\u1160" <= char <= "\u11ff"
        or "\ud7b0" <= char <= "\ud7ff"
        or "\U00016d63" <= char <= "\U00016d6a"
    )


def nfc(text: str) -> str:
    """Normalise the text to NFC in linear time. Runs of more than MAX_JOINING_RUN joining characters are cut first."""
    if text.isascii():
        return text
    cuts = _cuts(text)
    if not cuts:
        return unicodedata.normalize("NFC", text)
    edges = [0, *cuts, len(text)]
    return "".join(unicodedata.normalize("NFC", text[lo:hi]) for lo, hi in pairwise(edges))


def _cuts(text: str) -> list[int]:
    """Return the offsets at which `nfc` cuts runs of more than MAX_JOINING_RUN joining characters.

    It is enough to examine every MAX_JOINING_RUN-th character: each such run contains one of them.
    """
    cuts: list[int] = []
    offset = MAX_JOINING_RUN - 1
    while offset < len(text):
        if not may_join_previous(text[offset]):
            offset += MAX_JOINING_RUN
            continue
        lo, hi = offset, offset + 1
        while lo and may_join_previous(text[lo - 1]):
            lo -= 1
        while hi < len(text) and may_join_previous(text[hi]):
            hi += 1
        cuts.extend(range(lo + MAX_JOINING_RUN, hi, MAX_JOINING_RUN))
        offset = hi + MAX_JOINING_RUN - 1
    return cuts
