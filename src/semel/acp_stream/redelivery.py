"""Is this text a re-delivery? The evidence, and the lengths below which repeats are honest (Law 8).

"ha", "ha" is haha and "1", "0", "0", "0" is 1000. An answer may say its first sentence, verse or line twice, so a text
that comes again is honest unless something besides its wording says otherwise: a retry signal, a message id that is
documented as another attempt, one chunk that is all of what came in several. Without such evidence at least everything
that was accumulated must come again, and it must be longer than any honest text that was measured:

- `LEAST_RETRY_CHARS`: of 50,224 texts on a Debian system and in its Python packages (manuals, code, tables, logs,
  changelogs; 516 million characters), 430 say a phrase twice in a row from the beginning of one of their lines on. The
  longest phrase has 3,062 characters (a keyboard map that holds one block twice), the next 1,025.
- `LEAST_GLUED_CHARS`: where the second copy begins inside the last word of the first ("and thenPartial text"), as it
  does after a broken stream, there are 7 such texts, and the longest phrase has 55 characters.

`bench/honest_repeats.py` measures both.
"""

from __future__ import annotations

import re

LEAST_RETRY_CHARS = 4_096
LEAST_GLUED_CHARS = 256

_WORD = re.compile(r"[^\W_]+")


def is_distinctive(text: str, length: int = 8, words: int = 2) -> bool:
    """Whether a text is unlikely to be repeated by chance: long enough, with different words, no repetition itself."""
    if len(text) < length or text.endswith("\n"):
        return False
    if len(set(_WORD.findall(text[:4096]))) < words:
        return False
    return not is_repetition(text)


def is_redelivery(before: str, after: str, least_glued: int = LEAST_GLUED_CHARS) -> bool:
    """Whether wording alone proves a re-delivery: `after` follows `before` directly and begins with all of it."""
    least = least_glued if is_glued(before, after) else LEAST_RETRY_CHARS
    return len(before) >= least and is_distinctive(before)


def is_glued(before: str, after: str) -> bool:
    """Whether two texts, joined, would run one word into another. Letters without case do not count: their scripts put
    no blanks between words."""
    return _is_cased(before[-1:]) and _is_cased(after[:1])


def _is_cased(letter: str) -> bool:
    return letter.lower() != letter.upper()


def is_repetition(text: str) -> bool:
    """Is the text some shorter text two or more times?"""
    return text in (text + text)[1:-1]


def bare(text: str) -> str:
    """The text without its white space: what replay and prompt echoes are compared by (agents trim and reflow)."""
    return "".join(text.split())


def are_attempts(texts: str, answer: str) -> bool:
    """Whether `texts` is a sequence of one or more prefixes of the answer. Both are without white space."""
    at = 0
    while at < len(texts):
        rest = texts[at : at + len(answer)]
        same = next((n for n, (a, b) in enumerate(zip(rest, answer, strict=False)) if a != b), len(rest))
        if not same:
            return False
        at += same
    return bool(texts)


class Cursor:
    """Compares a text in pieces with another text in pieces, incrementally and without joining either."""

    __slots__ = ("index", "left", "offset", "pieces")

    def __init__(self, pieces: list[str], size: int) -> None:
        self.pieces = pieces
        self.index = 0
        self.offset = 0
        self.left = size  # characters of `pieces` still to be met

    def feed(self, text: str) -> bool:
        """Whether `text` continues like the followed text. Anything beyond the end of that text is not compared."""
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
