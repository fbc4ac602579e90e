"""What a person asks for is never an error of syntax, and what is shown is marked where it was found."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.ledger.search.index import _read_resource
from semel.ledger.search.words import (
    BadQuery,
    SearchQuery,
    SearchTerm,
    fold_text,
    make_snippet,
    read_query,
    split_words,
)


@pytest.fixture(scope="module")
def table() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute(_read_resource("schema.sql"))
    return db


def found(db: apsw.Connection, text: str, asked: str) -> bool:
    db.execute("DELETE FROM word")
    db.execute("INSERT INTO word(rowid, text) VALUES(1, ?)", (fold_text(text),))
    return bool(db.execute("SELECT rowid FROM word WHERE word MATCH ?", (read_query(asked).to_fts5(),)).fetchall())


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        ("one two", SearchQuery((SearchTerm(("one",)), SearchTerm(("two",))))),
        ('"one two" three', SearchQuery((SearchTerm(("one", "two")), SearchTerm(("three",))))),
        ("beginn*", SearchQuery((SearchTerm(("beginn",), prefix=True),))),
        ('"one tw"*', SearchQuery((SearchTerm(("one", "tw"), prefix=True),))),
        ("yes -no", SearchQuery((SearchTerm(("yes",)),), (SearchTerm(("no",)),))),
        ('yes -"not this"', SearchQuery((SearchTerm(("yes",)),), (SearchTerm(("not", "this")),))),
        ('"left open', SearchQuery((SearchTerm(("left", "open")),))),
        ("foo-bar a.b", SearchQuery((SearchTerm(("foo", "bar")), SearchTerm(("a", "b"))))),
        (
            "NEAR( AND OR NOT ^",
            SearchQuery((SearchTerm(("near",)), SearchTerm(("and",)), SearchTerm(("or",)), SearchTerm(("not",)))),
        ),
        ("text:x", SearchQuery((SearchTerm(("text", "x")),))),
    ],
)
def test_a_query_is_read_as_it_was_meant(asked: str, query: SearchQuery) -> None:
    assert read_query(asked) == query


@pytest.mark.parametrize("asked", ["", "   ", '"', '""', "*", "-", "-no", "😀 !?", "'; --"])
def test_a_query_that_looks_for_nothing_says_what_to_write(asked: str) -> None:
    with pytest.raises(BadQuery, match="name at least one word"):
        read_query(asked)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Die Straße ist lang", "STRASSE"),
        ("über allem", "Uber"),
        ("Cafe\u0301 noir", "café"),
        ("САМОВАР", "самовар"),
        ("你好世界", "好世"),
        ("こんにちは世界", "にちは"),
        ("สวัสดีชาวโลก", "ชาว"),
        ("안녕하세요 여러분", "안녕*"),
        ("don't stop", "don't"),
        ("ﬁnal ＡＢＣ", "final abc"),
        ("file_name.py:12", "file_name.py"),
    ],
)
def test_words_are_found_in_any_script_case_and_accent(table: apsw.Connection, text: str, asked: str) -> None:
    assert found(table, text, asked)
    assert any(piece.get("hit") for piece in make_snippet(text, read_query(asked).terms))


def test_words_that_are_not_there_and_phrases_in_another_order_are_not_found(table: apsw.Connection) -> None:
    assert not found(table, "one two three", "one four")
    assert not found(table, "one two three", '"two one"')
    assert not found(table, "one two three", "one -three")
    assert not found(table, "世好", "好世")


@given(st.text(max_size=60))
def test_whatever_is_asked_is_a_query_or_says_why_not(asked: str) -> None:
    db = apsw.Connection(":memory:")
    db.execute(_read_resource("schema.sql"))
    try:
        query = read_query(asked)
    except BadQuery:
        return
    db.execute("SELECT rowid FROM word WHERE word MATCH ?", (query.to_fts5(),)).fetchall()


@given(st.text(max_size=300), st.text(max_size=20))
def test_a_snippet_changes_no_character_and_keeps_their_order(text: str, asked: str) -> None:
    terms = tuple(SearchTerm((word,), prefix=True) for word, _, _ in split_words(asked))
    shown = "".join(str(piece["text"]) for piece in make_snippet(text, terms))
    left = iter(text)
    assert all(sign in left for sign in shown if sign != "…" and not sign.isspace())


def test_a_snippet_shows_each_word_of_the_query_and_no_marks() -> None:
    text = "# Report\n\nRevenue is **5** percent up, see [the list](https://a.example).\n\n" + "filler " * 60
    text += "The *margin* fell." + " filler" * 30
    pieces = make_snippet(text, read_query("revenue margin").terms)
    assert [piece["text"] for piece in pieces if piece.get("hit")] == ["Revenue", "margin"]
    shown = "".join(str(piece["text"]) for piece in pieces)
    assert shown.startswith("Report\n\nRevenue is 5 percent up, see the list…")
    assert "filler The margin fell. filler" in shown and shown.endswith("…") and len(shown) < 140
    far = " filler" * 60
    pieces = make_snippet(f"alpha{far} beta gamma{far} gamma", read_query("alpha beta gamma").terms)
    assert [piece["text"] for piece in pieces if piece.get("hit")] == ["alpha", "beta", "gamma"], "none twice"
    link = make_snippet("see [the list](https://a.example/orders)", read_query("orders").terms)
    assert [piece["text"] for piece in link if piece.get("hit")] == ["orders"], "what is found is shown"


def test_a_snippet_begins_at_a_word_before_what_was_found() -> None:
    text = "x" * 10 + " before it comes " + "filler " * 30 + "the needle in it" + " after" * 60
    pieces = make_snippet(text, read_query("needle").terms)
    assert pieces[0] == {"text": "…"}
    assert {"text": "needle", "hit": True} in pieces
    assert str(pieces[-1]["text"]).endswith("…")
    assert sum(len(str(piece["text"])) for piece in pieces) < 220
