"""Searches: what a person asks for, as SQLite's FTS5 gets it, and the piece of a text that is shown.

No query is an error of syntax (it would make the index anew); whatever was put in is found by its own words; what is
shown is a piece of the text as it stands.
"""

from __future__ import annotations

from typing import Any

from proof.fuzz.scratch import folder
from proof.fuzz.source import WORDS, Source
from semel.ledger.search.feed import ChangedPage, IndexedEntry
from semel.ledger.search.index import Index, IndexReset, SearchRequest
from semel.ledger.search.words import MAX_WORDS_SCANNED, BadQuery, SearchQuery, make_snippet, read_query, split_words

ASKED = [*WORDS, "deploy", '"a phrase"', "depl*", "-not", " AND ", " OR ", "NEAR(a b)", "text:", "^", "*", "-*", '"']
KEY = "main:telegram:-100:" + "a" * 100
_index: list[Index] = []


def one(data: bytes) -> None:
    source = Source(data)
    asked = source.words(10, ASKED) if source.number(2) else source.take(80).decode("utf-8", "replace")
    text = source.writing(ASKED)[:20_000]
    try:
        query = read_query(asked)
    except BadQuery:
        query = None
    if query is not None:
        _found(query, asked, source)
        _shown(text, query)
    _own_words(text)


def _open() -> Index:
    if not _index:
        index = Index(folder() / "index.db", "fuzz")
        try:
            index.count()
        except IndexReset:
            pass
        page = ChangedPage(KEY, 1, 1, (IndexedEntry(1, 1, 1, "user", "we deploy a phrase 漢字 today"),), False, 0)
        index.index_page(1, page)
        _index.append(index)
    return _index[0]


def _found(query: SearchQuery, asked: str, source: Source) -> None:
    order: Any = source.pick(["newest", "best"])
    pattern = source.pick([None, KEY, "*a*", "main:*", source.words(3, ["*", "a", "?", "[", "]", "*a", "[^b]", "[a-"])])
    rows = _open().find(SearchRequest(query, order, pattern, limit=5))
    assert len(rows) <= 1
    if asked == "deploy" and pattern in (None, KEY):
        assert rows, "what is there is not found"


def _shown(text: str, query: SearchQuery) -> None:
    pieces = [str(piece["text"]) for piece in make_snippet(text, query.terms)]
    whole = "".join(pieces)
    rest = iter(text)  # marks of Markdown are left out
    assert all(char in rest for char in whole if char != "…"), "what is shown does not stand there"
    assert len(whole) < 400 + 2


def _own_words(text: str) -> None:
    words = [word for word, _, _ in split_words(text)]
    for word, lo, hi in list(split_words(text))[:200]:
        assert 0 <= lo < hi <= len(text) and word
    if words and len(words) < MAX_WORDS_SCANNED and len(words[0]) < 200:
        query = read_query(f'"{words[0]}"')
        assert query.terms[0].words, "a word of a text is none of a query"


SEEDS = [
    bytes([0]) + b'we "a phrase" depl* -not'.ljust(80) + b"\x00\x00we deploy a phrase today, not tomorrow",
    bytes([0]) + "漢字 é ﬁ".encode().ljust(80) + b"\x01\x04\x00" + "漢字 e\u0301 ﬁnd it".encode(),
    *(bytes([1, 9, n, n + 1, n + 2, n + 50, 1, 4, 2, n]) for n in range(0, 90, 9)),
    bytes([0]) + b'NEAR(" OR text:x ^a*'.ljust(80) + b"\x01\x04\x02" + bytes(range(40)),
]
