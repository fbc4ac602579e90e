"""Decide whether text that comes again is a re-delivery or an honest repeat (Law 8).

A *re-delivery* is text that an agent sends twice although it wrote it once; an *honest* repeat was written twice. "ha",
"ha" is haha and "1", "0", "0", "0" is 1000, and an answer may say its first sentence, verse or line twice. So a repeat
counts as honest unless there is evidence besides its wording: a retry signal, a message id that is documented as
a repeated start, or one chunk that repeats text which came in several.

Without such evidence, a repeat is a re-delivery only if all of the text so far comes again, and if that text is longer
than any honest repeat that was measured:

- `LEAST_RETRY_CHARS` is the usual limit. Of 50,224 texts on a Debian system and in its Python packages (manuals, code,
  tables, logs, changelogs; 516 million characters), 430 contain a phrase that begins a line and directly follows
  itself. The longest such phrase has 3,062 characters (a keyboard map that holds one block twice), the next 1,025.
- `LEAST_GLUED_CHARS` is the lower limit if the second copy is *glued* to the last word of the first ("and thenPartial
  text"), as after a broken stream. Such a phrase occurs in 7 of the texts; the longest has 55 characters.

`bench/honest_repeats.py` measures both.
"""

from __future__ import annotations

import re

LEAST_RETRY_CHARS = 4_096
LEAST_GLUED_CHARS = 256

_WORD = re.compile(r"[^\W_]+")


def is_distinctive(text: str, length: int = 8, words: int = 2) -> bool:
    """Return whether a text is unlikely to be repeated by chance.

    It must have at least `length` characters and `words` different words. It must not end with a newline, nor consist
    of a shorter text repeated.
    """
    if len(text) < length or text.endswith("\n"):
        return False
    if len(set(_WORD.findall(text[:4096]))) < words:
        return False
    return not is_repetition(text)


def is_redelivery(before: str, after: str, least_glued: int = LEAST_GLUED_CHARS) -> bool:
    """Return whether the wording alone proves that `after` delivers `before` again.

    The caller knows that `after` follows `before` and begins with all of it. `least_glued`: the minimum length of
    `before`, in characters, if the two texts are glued (`is_glued`).
    """
    least = least_glued if is_glued(before, after) else LEAST_RETRY_CHARS
    return len(before) >= least and is_distinctive(before)


def is_glued(before: str, after: str) -> bool:
    """Return whether two words would run into each other if the two texts were joined.

    Only letters that have upper and lower case count, because other scripts put no blanks between words.
    """
    return _is_cased(before[-1:]) and _is_cased(after[:1])


def _is_cased(letter: str) -> bool:
    return letter.lower() != letter.upper()


def is_repetition(text: str) -> bool:
    """Return whether the text is some shorter text repeated two or more times."""
    return text in (text + text)[1:-1]


def without_white_space(text: str) -> str:
    """Return the text without white space. Agents trim and reflow text, so repeats are searched in this form."""
    return "".join(text.split())


def are_failed_starts(texts: str, answer: str) -> bool:
    """Return whether `texts` consists of one or more beginnings of `answer`, one after another: failed starts of it.

    Both arguments must be without white space.
    """
    offset = 0
    while offset < len(texts):
        following = texts[offset : offset + len(answer)]
        matched = next((n for n, (a, b) in enumerate(zip(following, answer, strict=False)) if a != b), len(following))
        if not matched:
            return False
        offset += matched
    return bool(texts)


class TextCursor:
    """A position in a known text, up to which an incoming text has repeated it, chunk by chunk.

    `pieces`: the strings that make up the known text. `size`: how many of its first characters to compare. Call `feed`
    with each chunk. When `remaining` is 0, the incoming text begins with all of these characters.
    """

    __slots__ = ("index", "offset", "pieces", "remaining")

    def __init__(self, pieces: list[str], size: int) -> None:
        self.pieces = pieces
        self.index = 0
        self.offset = 0
        self.remaining = size  # characters of the known text that were not compared yet

    def feed(self, text: str) -> bool:
        """Compare the next chunk, `text`, with the next characters of the known text. Return whether they are equal.

        Characters of `text` beyond the first `size` of the known text are not compared. After a False, the cursor must
        not be used any more.
        """
        offset, end = 0, len(text)
        while offset < end and self.remaining:
            piece = self.pieces[self.index]
            take = min(len(piece) - self.offset, end - offset, self.remaining)
            if piece[self.offset : self.offset + take] != text[offset : offset + take]:
                return False
            offset += take
            self.remaining -= take
            self.offset += take
            if self.offset == len(piece):
                self.index += 1
                self.offset = 0
        return True
