"""Is this text a re-delivery? The evidence, and the thresholds below which repeats are honest.

Law 8: "ha", "ha" is haha and "1", "0", "0", "0" is 1000. Text is taken for a re-delivery only if at least
everything that was accumulated comes again, and if what comes again says enough not to be chance: an overlap
of one text's tail with another's head is no evidence.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")


def telling(text: str, length: int = 8, words: int = 2) -> bool:
    """Text that nobody repeats by chance: long enough, of several different words, and not itself a repetition."""
    if len(text) < length or text.endswith("\n"):
        return False
    if len(set(_WORD.findall(text[:4096]))) < words:
        return False
    return not is_repetition(text)


def is_repetition(text: str) -> bool:
    """Is the text some shorter text two or more times?"""
    return text in (text + text)[1:-1]


def bare(text: str) -> str:
    """The text without its white space: what replay and prompt echoes are compared by (agents trim and reflow)."""
    return "".join(text.split())


class Cursor:
    """Follows a text in pieces through another text in pieces, without joining either."""

    __slots__ = ("index", "left", "offset", "pieces")

    def __init__(self, pieces: list[str], size: int) -> None:
        self.pieces = pieces
        self.index = 0
        self.offset = 0
        self.left = size  # characters of `pieces` still to be met

    def feed(self, text: str) -> bool:
        """Does `text` go on as the followed one does? Whatever comes after its end is not compared."""
        at, end = 0, len(text)
        while at < end and self.left:
            piece = self.pieces[self.index]
            take = min(len(piece) - self.offset, end - at, self.left)
            if piece[self.offset : self.offset + take] != text[at : at + take]:
                return False
            at += take
            self.left -= take
            self.offset += take
            if self.offset == len(piece):
                self.index += 1
                self.offset = 0
        return True
