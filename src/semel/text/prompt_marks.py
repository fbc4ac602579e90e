"""Escape imitations of Semel's own prompt marks (`[semel: ...]`, `[/semel]`) in untrusted text.

A mark with other brackets, accents, full-width letters or invisible characters in between is an imitation, too. Only
its opening bracket is replaced, so that the text stays readable.
"""

from __future__ import annotations

import re
import unicodedata

from semel.text.visible import is_unseen

_WORD = "semel"
_BRACKET = re.compile(
    "[\\[\uff3b\ufe47\u3010\u3014\u3016\u3018\u301a\ufe17\ufe39\ufe3b\ufe5d\u2045\u2772\u27e6\u27ec\u298b\u298d\u298f\u2997\u2e22\u2e55\u2e57]"
)
"""Characters that open a mark or look like it: square brackets and their full-width, vertical and foreign forms."""
_SLASHES = frozenset("/\\\u2044\u2215\u29f8\u2571\uff0f\uff3c\u3033")


def escape_semel_markers(text: str) -> str:
    """Replace the opening bracket of every imitated mark by a parenthesis; no other character changes.

    Letter case, letter forms (full-width, accented), white space and invisible characters make no difference. The time
    is linear in the length of the text: each character is examined for at most one bracket.
    """
    brackets = [match.start() for match in _BRACKET.finditer(text) if _is_mark(text, match.end())]
    if not brackets:
        return text
    pieces, last = list[str](), 0
    for place in brackets:
        pieces += text[last:place], "("
        last = place + 1
    return "".join([*pieces, text[last:]])


def _is_mark(text: str, place: int) -> bool:
    """Whether "semel", or slashes and "semel", follow at `place` as a whole word (so not in `[semelfactive]`)."""
    spelled_size = 0
    for offset in range(place, len(text)):
        char = text[offset]
        if spelled_size == len(_WORD) and (char.isspace() or not _is_ignored(char)):
            return not char.isalnum()
        if _is_ignored(char) or (not spelled_size and char in _SLASHES):
            continue
        letters = _simplify(char)
        if not letters or not _WORD.startswith(letters, spelled_size):
            return False
        spelled_size += len(letters)
    return spelled_size == len(_WORD)


def _is_ignored(char: str) -> bool:
    """Whether a character between the letters of "semel" is ignored: white space, an accent, an invisible one."""
    if char.isascii():
        return char.isspace() or not char.isprintable()
    return char.isspace() or is_unseen(char) or unicodedata.category(char) in _ACCENTS


_ACCENTS = frozenset(("Mn", "Me"))


def _simplify(letter: str) -> str:
    """Return the basic form of a letter: compatibility-decomposed, without accents, in lower case."""
    if letter.isascii():
        return letter.lower()
    forms = unicodedata.normalize("NFKD", letter)
    return "".join([char for char in forms if not unicodedata.combining(char)]).casefold()
