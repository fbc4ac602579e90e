"""Split texts into words for the index, parse queries, and make snippets.

A query has no syntax errors: all words must occur, `"a phrase"` must occur as it is, `word*` is a prefix, `-word` must
not occur; everything else is letters and digits or is ignored. Letters are compared without case and accents. In a
script that does not separate words (Han, Kana, Thai ...) each character is a word, and a query in it is a phrase.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

MAX_TERMS = 32
MAX_QUERY_CHARS = 1000  # characters of one query

_SOLO = (  # one word a character
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Kana, Han
)
_SPACED = re.compile(f"([{_SOLO}])")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_ASKED = re.compile(r'(?P<no>-?)(?:"(?P<phrase>[^"]*)(?:"|\Z)(?P<begin>\*?)|(?P<word>[^\s"]+))')


class BadQuery(ValueError):
    """A query without a word to look for, or one that is too long. The message says what to write."""


@dataclass(frozen=True)
class Term:
    """Words that follow each other. With `prefix`, the last one is only the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False

    def fts(self) -> str:
        """As SQLite's FTS5 has it (https://sqlite.org/fts5.html, section 3): always quoted, so nothing is syntax."""
        return '"' + " ".join(self.words) + '"' + ("*" if self.prefix else "")


@dataclass(frozen=True)
class Query:
    """Texts that have all of `terms` and none of `without`."""

    terms: tuple[Term, ...]
    without: tuple[Term, ...] = ()

    def fts(self) -> str:
        found = " AND ".join(term.fts() for term in self.terms)
        lost = " OR ".join(term.fts() for term in self.without)
        return f"({found}) NOT ({lost})" if lost else found


def read_query(text: str) -> Query:
    """Parse what a person wrote. Raises BadQuery."""
    if len(text) > MAX_QUERY_CHARS:
        raise BadQuery(f"a search takes at most {MAX_QUERY_CHARS} characters; ask for fewer words")
    terms: list[Term] = []
    without: list[Term] = []
    for found in _ASKED.finditer(text):
        said = found["phrase"] if found["word"] is None else found["word"]
        words = tuple(word for word, _, _ in cut(said))
        if words:
            term = Term(words, prefix=bool(found["begin"]) or (found["word"] or "").endswith("*"))
            (without if found["no"] else terms).append(term)
    if len(terms) + len(without) > MAX_TERMS:
        raise BadQuery(f"a search takes at most {MAX_TERMS} words and phrases; ask for fewer")
    if not terms:
        raise BadQuery(
            'nothing to look for: name at least one word of letters or digits, like: word, "a phrase", beginn*'
            + (" (words after - are only left out)" if without else "")
        )
    return Query(tuple(terms), tuple(without))


def fold(text: str) -> str:
    """A text as the index stores it: without accents and case, each Han character a word."""
    if text.isascii():
        return text  # the index itself folds the case of these
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return _SPACED.sub(r" \1 ", unicodedata.normalize("NFKC", plain).casefold())


@cache
def _token() -> re.Pattern[str]:
    marks = "".join(re.escape(chr(c)) for c in range(0x300, 0x10000) if unicodedata.category(chr(c))[0] == "M")
    return re.compile(f"[{_SOLO}]|(?:(?![{_SOLO}])[^\\W_]|[{marks}])+")


def cut(text: str) -> Iterator[tuple[str, int, int]]:
    """The words of a text: (folded, start, end), in code points of the original text."""
    for found in _token().finditer(text):
        for word in fold(found[0]).lower().split():
            yield word, found.start(), found.end()


# ---------------------------------------------------------------- what is shown of a text

Piece = dict[str, object]
MAX_WORDS_SCANNED = 20_000
"""Words of one text that are searched for the snippet's place; if none matches, its beginning is shown."""


def snippet(text: str, terms: Sequence[Term], before: int = 60, after: int = 140) -> list[Piece]:
    """The text around the first match: [{"text"}, {"text", "hit": true}, ...], with "…" where it is cut."""
    spans = list(_spans(text, terms))
    first = spans[0][0] if spans else 0
    lo = _at_blank(text, max(0, first - before), first)
    hi = min(len(text), max(first, lo) + after)
    out: list[Piece] = [{"text": "…"}] if lo else []
    at = lo
    for start, end in spans:
        if start < at or start >= hi:
            continue
        out += [{"text": text[at:start]}] if start > at else []
        out.append({"text": text[start : min(end, hi)], "hit": True})
        at = min(end, hi)
    rest = text[at:hi] + ("…" if hi < len(text) else "")
    return [*out, {"text": rest}] if rest else out


def _at_blank(text: str, at: int, first: int) -> int:
    """The beginning of the next word, if there is one before the match."""
    if at == 0:
        return 0
    blank = re.compile(r"\s").search(text, at, first)
    return blank.end() if blank else at


def _spans(text: str, terms: Sequence[Term]) -> Iterator[tuple[int, int]]:
    """Where any of the terms matches, in order, without overlaps."""
    words: list[tuple[str, int, int]] = []
    for word in cut(text):
        words.append(word)
        if len(words) >= MAX_WORDS_SCANNED:
            break
    done = 0
    for n, (_, start, _) in enumerate(words):
        for term in terms:
            if start >= done and _stands(words, n, term):
                done = words[n + len(term.words) - 1][2]
                yield start, done


def _stands(words: Sequence[tuple[str, int, int]], n: int, term: Term) -> bool:
    if n + len(term.words) > len(words):
        return False
    *whole, last = term.words
    found = words[n + len(whole)][0]
    if not (found.startswith(last) if term.prefix else found == last):
        return False
    return all(words[n + i][0] == word for i, word in enumerate(whole))
