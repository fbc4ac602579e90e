"""Escape imitations of Semel's own prompt marks (`[semel: ...]`, `[/semel]`) in untrusted text.

Look-alikes count, too: other brackets, accents, full-width letters, and invisible characters in between. Only the
bracket is replaced, so that the text stays readable.
"""

from __future__ import annotations

import re
import unicodedata

from semel.text.invisible import is_unseen

_WORD = "semel"
_BRACKET = re.compile(
    "[\\[\uff3b\ufe47\u3010\u3014\u3016\u3018\u301a\ufe17\ufe39\ufe3b\ufe5d\u2045\u2772\u27e6\u27ec\u298b\u298d\u298f\u2997\u2e22\u2e55\u2e57]"
)
"""Characters that open a mark or look like it: square brackets and their full-width, vertical and foreign forms."""
_SLASHES = frozenset("/\\\u2044\u2215\u29f8\u2571\uff0f\uff3c\u3033")


def escape_semel_markers(text: str) -> str:
    """Replace the opening bracket of every such mark by a parenthesis; no other character changes.

    Letter case, letter forms (full-width, accented), white space and invisible characters are ignored, in any number.
    Linear in the text: each character is examined for at most one bracket.
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
    """Whether the word "semel" stands at `place` as a whole word: `[semelfactive]` does not count."""
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
    """Whether a character is ignored inside the word: white space, an accent, an invisible character."""
    if sign.isascii():
        return sign.isspace() or not sign.isprintable()
    return sign.isspace() or is_unseen(sign) or unicodedata.category(sign) in _ACCENTS


_ACCENTS = frozenset(("Mn", "Me"))


def _plain(sign: str) -> str:
    """The basic form of a letter: compatibility-decomposed, without accents, in lower case."""
    if sign.isascii():
        return sign.lower()
    forms = unicodedata.normalize("NFKD", sign)
    return "".join([one for one in forms if not unicodedata.combining(one)]).casefold()
