"""What a person asks for is never an error of syntax, and what is shown is marked where it was found."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.ledger.search.index import _read
from semel.ledger.search.words import BadQuery, Query, Term, cut, fold, read_query, snippet


@pytest.fixture(scope="module")
def table() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute(_read("schema.sql"))
    return db


def found(db: apsw.Connection, text: str, asked: str) -> bool:
    db.execute("DELETE FROM word")
    db.execute("INSERT INTO word(rowid, text) VALUES(1, ?)", (fold(text),))
    return bool(db.execute("SELECT rowid FROM word WHERE word MATCH ?", (read_query(asked).fts(),)).fetchall())


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        ("one two", Query((Term(("one",)), Term(("two",))))),
        ('"one two" three', Query((Term(("one", "two")), Term(("three",))))),
        ("beginn*", Query((Term(("beginn",), prefix=True),))),
        ('"one tw"*', Query((Term(("one", "tw"), prefix=True),))),
        ("yes -no", Query((Term(("yes",)),), (Term(("no",)),))),
        ('yes -"not this"', Query((Term(("yes",)),), (Term(("not", "this")),))),
        ('"left open', Query((Term(("left", "open")),))),
        ("foo-bar a.b", Query((Term(("foo", "bar")), Term(("a", "b"))))),
        ("NEAR( AND OR NOT ^", Query((Term(("near",)), Term(("and",)), Term(("or",)), Term(("not",))))),
        ("text:x", Query((Term(("text", "x")),))),
    ],
)
def test_a_query_is_read_as_it_was_meant(asked: str, query: Query) -> None:
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
    assert any(piece.get("hit") for piece in snippet(text, read_query(asked).terms))


def test_words_that_are_not_there_and_phrases_in_another_order_are_not_found(table: apsw.Connection) -> None:
    assert not found(table, "one two three", "one four")
    assert not found(table, "one two three", '"two one"')
    assert not found(table, "one two three", "one -three")
    assert not found(table, "世好", "好世")


@given(st.text(max_size=60))
def test_whatever_is_asked_is_a_query_or_says_why_not(asked: str) -> None:
    db = apsw.Connection(":memory:")
    db.execute(_read("schema.sql"))
    try:
        query = read_query(asked)
    except BadQuery:
        return
    db.execute("SELECT rowid FROM word WHERE word MATCH ?", (query.fts(),)).fetchall()


@given(st.text(max_size=300), st.text(max_size=20))
def test_a_snippet_is_a_stretch_of_the_text_and_changes_no_character(text: str, asked: str) -> None:
    terms = tuple(Term((word,), prefix=True) for word, _, _ in cut(asked))
    shown = "".join(str(piece["text"]) for piece in snippet(text, terms))
    assert shown.removeprefix("…").removesuffix("…") in text or shown in text


def test_a_snippet_begins_at_a_word_before_what_was_found() -> None:
    text = "x" * 10 + " before it comes " + "filler " * 30 + "the needle in it" + " after" * 60
    pieces = snippet(text, read_query("needle").terms)
    assert pieces[0] == {"text": "…"}
    assert {"text": "needle", "hit": True} in pieces
    assert str(pieces[-1]["text"]).endswith("…")
    assert sum(len(str(piece["text"])) for piece in pieces) < 220
