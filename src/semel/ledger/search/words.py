"""Split texts into words for the index, parse queries, and make snippets.

A query cannot have a syntax error. All words must occur; `"a phrase"` must occur as it is; `word*` is a prefix; `-word`
must not occur. Characters other than letters and digits only separate words. Letters are compared without case and
accents. In a script that does not separate words (Han, Kana, Thai ...) each character is a word, and a run of them in a
query is a phrase.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from semel.text.preview import remove_markup

MAX_TERMS = 32
MAX_QUERY_CHARS = 1000  # characters of one query

_SINGLE_CHAR_WORDS = (  # scripts in which each character is a word
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Kana, Han
)
_SINGLE_CHAR_WORD = re.compile(f"([{_SINGLE_CHAR_WORDS}])")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_QUERY_TERM = re.compile(r'(?P<no>-?)(?:"(?P<phrase>[^"]*)(?:"|\Z)(?P<begin>\*?)|(?P<word>[^\s"]+))')


class BadQuery(ValueError):
    """The query is too long, or has no word to search for. The message says what to write instead."""


@dataclass(frozen=True)
class SearchTerm:
    """A sequence of words that a text must contain. `prefix`: the last word is only the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False

    def to_fts5(self) -> str:
        """Return the term as a quoted string in FTS5's query syntax (https://sqlite.org/fts5.html, section 3)."""
        return '"' + " ".join(self.words) + '"' + ("*" if self.prefix else "")


@dataclass(frozen=True)
class SearchQuery:
    """A query. It matches texts that contain all of `terms` and none of `without`."""

    terms: tuple[SearchTerm, ...]
    without: tuple[SearchTerm, ...] = ()

    def to_fts5(self) -> str:
        wanted_terms = " AND ".join(term.to_fts5() for term in self.terms)
        unwanted_terms = " OR ".join(term.to_fts5() for term in self.without)
        return f"({wanted_terms}) NOT ({unwanted_terms})" if unwanted_terms else wanted_terms


def read_query(text: str) -> SearchQuery:
    """Parse the query that a person typed. Raises BadQuery."""
    if len(text) > MAX_QUERY_CHARS:
        raise BadQuery(f"a search takes at most {MAX_QUERY_CHARS} characters; ask for fewer words")
    terms: list[SearchTerm] = []
    without: list[SearchTerm] = []
    for match in _QUERY_TERM.finditer(text):
        phrase = match["phrase"] if match["word"] is None else match["word"]
        words = tuple(word for word, _, _ in split_words(phrase))
        if words:
            term = SearchTerm(words, prefix=bool(match["begin"]) or (match["word"] or "").endswith("*"))
            (without if match["no"] else terms).append(term)
    if len(terms) + len(without) > MAX_TERMS:
        raise BadQuery(f"a search takes at most {MAX_TERMS} words and phrases; ask for fewer")
    if not terms:
        raise BadQuery(
            'nothing to look for: name at least one word of letters or digits, like: word, "a phrase", begin*'
            + (" (words after - are only left out)" if without else "")
        )
    return SearchQuery(tuple(terms), tuple(without))


def fold_text(text: str) -> str:
    """Return a text as the index stores it: without accents, in one case.

    A character that counts as a word (Han, Kana, Thai ...) gets blanks around it.
    """
    if text.isascii():
        return text  # the index itself folds the case of ASCII letters
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return _SINGLE_CHAR_WORD.sub(r" \1 ", unicodedata.normalize("NFKC", plain).casefold())


@cache
def _word_pattern() -> re.Pattern[str]:
    marks = "".join(re.escape(chr(c)) for c in range(0x300, 0x10000) if unicodedata.category(chr(c))[0] == "M")
    return re.compile(f"[{_SINGLE_CHAR_WORDS}]|(?:(?![{_SINGLE_CHAR_WORDS}])[^\\W_]|[{marks}])+")


def split_words(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each word of a text: the folded word, its start and its end (in code points of `text`)."""
    for match in _word_pattern().finditer(text):
        for word in fold_text(match[0]).lower().split():
            yield word, match.start(), match.end()


# ---------------------------------------------------------------- snippets

SnippetPiece = dict[str, object]
Match = tuple[int, int, SearchTerm]  # its start, its end, and what matches there
MAX_STRETCHES = 3
_BEGIN, _END = "\x01", "\x02"  # the borders of a match, while marks are removed
_CUT_LINK = re.compile(r"\[([^\[\]\n]*)\]\([^()\s]*\Z")  # a link of whose address the end is not in the stretch
MAX_WORDS_SCANNED = 20_000
"""How many words of a text are searched for a match; if none of them matches, the snippet is the text's beginning."""


def make_snippet(text: str, terms: Sequence[SearchTerm], before: int = 60, after: int = 140) -> list[SnippetPiece]:
    """Return the text around the first match as a list of pieces, with "…" where the text is cut.

    Each piece is {"text": ...}; a piece that matches also has "hit": True. The snippet begins `before` characters
    before the match and ends `after` characters after the start of the match. If a term does not match there, it gets
    a stretch of its own, and each of the at most MAX_STRETCHES is a third as long. Marks of Markdown are left out, as
    in a list of sessions.
    """
    matches = list(_find_matches(text, terms))
    pieces: list[SnippetPiece] = []
    shown_to = 0
    stretches = _choose_stretches(text, matches, before, after)
    if len(stretches) > 1:
        stretches = _choose_stretches(text, matches, before // 3, after // 3)
    for begin, stop in stretches:
        inside = [(start, min(end, stop)) for start, end, _ in matches if begin <= start < stop]
        pieces += [{"text": "…"}] if begin > shown_to else []
        pieces += _mark_stretch(text, begin, stop, inside)
        shown_to = stop
    return [*pieces, {"text": "…"}] if shown_to < len(text) else pieces


def _choose_stretches(text: str, matches: Sequence[Match], before: int, after: int) -> list[tuple[int, int]]:
    """Return the begin and the end of each part of the text that is shown, in order."""
    first = matches[0][0] if matches else 0
    begin = _skip_to_word(text, max(0, first - before), first)
    stretches = [(begin, min(len(text), max(first, begin) + after))]
    shown = {term for start, _, term in matches if begin <= start < stretches[0][1]}
    for start, _, term in matches:
        shown_to = stretches[-1][1]
        is_shown = term in shown or start < shown_to
        shown.add(term)
        if is_shown or len(stretches) >= MAX_STRETCHES:
            continue
        begin = max(shown_to, _skip_to_word(text, max(0, start - before), start))
        stretches.append((begin, min(len(text), start + after)))
    return stretches


def _mark_stretch(text: str, begin: int, stop: int, matches: Sequence[tuple[int, int]]) -> list[SnippetPiece]:
    """Return a part of the text as pieces, without Markdown's marks if no match is in what would be left out."""
    marked, shown_to = "", begin
    for start, end in matches:
        marked += _without_borders(text[shown_to:start]) + _BEGIN + _without_borders(text[start:end]) + _END
        shown_to = end
    marked += _without_borders(text[shown_to:stop])
    plain = _CUT_LINK.sub(r"\1", remove_markup(marked))
    if plain.count(_BEGIN) != len(matches) or plain.count(_END) != len(matches):
        plain = marked
    pieces: list[SnippetPiece] = []
    for part in plain.split(_BEGIN):
        hit, border, rest = part.rpartition(_END)
        pieces += [{"text": hit, "hit": True}] if border else []
        pieces += [{"text": rest}] if rest else []
    return pieces


def _without_borders(text: str) -> str:
    return text.replace(_BEGIN, "").replace(_END, "")


def _skip_to_word(text: str, at: int, first: int) -> int:
    """Return where a snippet begins: at the first word that starts after `at`, so that no word is cut.

    `first`: the start of the first match. If no word starts between `at` and `first`, or if `at` is 0, return `at`.
    """
    if at == 0:
        return 0
    blank = re.compile(r"\s").search(text, at, first)
    return blank.end() if blank else at


def _find_matches(text: str, terms: Sequence[SearchTerm]) -> Iterator[Match]:
    """Yield each place where one of the terms matches, in order, without overlaps."""
    words: list[tuple[str, int, int]] = []
    for word in split_words(text):
        words.append(word)
        if len(words) >= MAX_WORDS_SCANNED:
            break
    matched_to = 0
    for index, (_, start, _) in enumerate(words):
        for term in terms:
            if start >= matched_to and _matches_at(words, index, term):
                matched_to = words[index + len(term.words) - 1][2]
                yield start, matched_to, term


def _matches_at(words: Sequence[tuple[str, int, int]], index: int, term: SearchTerm) -> bool:
    if index + len(term.words) > len(words):
        return False
    *whole_words, last = term.words
    candidate = words[index + len(whole_words)][0]
    if not (candidate.startswith(last) if term.prefix else candidate == last):
        return False
    return all(words[index + i][0] == word for i, word in enumerate(whole_words))
