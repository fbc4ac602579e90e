"""Marks of Semel's own (`[semel: ...]`, `[/semel]`) in texts of others, however they are written."""

from __future__ import annotations

import re
import unicodedata

from semel.text.invisible import is_unseen

_WORD = "semel"
_BRACKET = re.compile(
    "[\\[\uff3b\ufe47\u3010\u3014\u3016\u3018\u301a\ufe17\ufe39\ufe3b\ufe5d\u2045\u2772\u27e6\u27ec\u298b\u298d\u298f\u2997\u2e22\u2e55\u2e57]"
)
"""What opens a mark or looks as if it did: square brackets, full-width and vertical ones, those of other scripts."""
_SLASHES = frozenset("/\\\u2044\u2215\u29f8\u2571\uff0f\uff3c\u3033")


def opened(text: str) -> str:
    """The text with a parenthesis where the bracket of such a mark opens; not another character is changed.

    Letter case, forms of a letter (full-width, with accents), blanks, and what cannot be seen make no difference,
    however much of them there is. Linear in the text: each character is looked at for one bracket at most.
    """
    found = [one.start() for one in _BRACKET.finditer(text) if _is_mark(text, one.end())]
    if not found:
        return text
    pieces, last = list[str](), 0
    for place in found:
        pieces += text[last:place], "("
        last = place + 1
    return "".join([*pieces, text[last:]])


def _is_mark(text: str, place: int) -> bool:
    """Whether the word stands there, as a word of its own: `[semelfactive]` is none."""
    spelled = 0
    for at in range(place, len(text)):
        sign = text[at]
        if spelled == len(_WORD) and (sign.isspace() or not _is_nothing(sign)):
            return not sign.isalnum()
        if _is_nothing(sign) or (not spelled and sign in _SLASHES):
            continue
        letters = _plain(sign)
        if not letters or not _WORD.startswith(letters, spelled):
            return False
        spelled += len(letters)
    return spelled == len(_WORD)


def _is_nothing(sign: str) -> bool:
    """Whether a character between two letters leaves the word as it is: a blank, an accent, what cannot be seen."""
    if sign.isascii():
        return sign.isspace() or not sign.isprintable()
    return sign.isspace() or is_unseen(sign) or unicodedata.category(sign) in _ACCENTS


_ACCENTS = frozenset(("Mn", "Me"))


def _plain(sign: str) -> str:
    """The letter, whatever its form: compatibility forms, without accents, in lower case."""
    if sign.isascii():
        return sign.lower()
    forms = unicodedata.normalize("NFKD", sign)
    return "".join([one for one in forms if not unicodedata.combining(one)]).casefold()
