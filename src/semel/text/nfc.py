"""Unicode NFC in linear time: a text is cut where its pieces can be normalised separately."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

MAX_JOINING_RUN = 128
"""A run of more joining characters than this is normalised in pieces of this length.

Sorting one run of combining marks takes quadratic time (100,000 marks: half a minute), and no script writes more
than a few; UAX 15 calls 30 the longest that is meaningful.
"""


def may_join_previous(char: str) -> bool:
    """Whether NFC may merge or reorder this character with the ones before it.

    True for every combining mark, the vowels and tails of Hangul, and the Kirat Rai vowel signs; wider than needed,
    never narrower (a test tries every composition that this Python knows).
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
    """The text in NFC, in linear time."""
    if text.isascii():
        return text
    cuts = _cuts(text)
    if not cuts:
        return unicodedata.normalize("NFC", text)
    edges = [0, *cuts, len(text)]
    return "".join(unicodedata.normalize("NFC", text[lo:hi]) for lo, hi in pairwise(edges))


def _cuts(text: str) -> list[int]:
    """The offsets at which overlong runs are cut. Sampling is enough: every overlong run covers a sampled position."""
    cuts: list[int] = []
    at = MAX_JOINING_RUN - 1
    while at < len(text):
        if not may_join_previous(text[at]):
            at += MAX_JOINING_RUN
            continue
        lo, hi = at, at + 1
        while lo and may_join_previous(text[lo - 1]):
            lo -= 1
        while hi < len(text) and may_join_previous(text[hi]):
            hi += 1
        cuts.extend(range(lo + MAX_JOINING_RUN, hi, MAX_JOINING_RUN))
        at = hi + MAX_JOINING_RUN - 1
    return cuts
