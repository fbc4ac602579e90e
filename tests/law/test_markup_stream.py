"""The reader of a block while the block streams in."""

from __future__ import annotations

import re
import time
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from law_pieces import joined, read

from fewer_cases import count_examples
from semel.text.message_markup import AddressedFile, MarkupProblem, MarkupReader, Piece, Said
from semel.text.tag_lexer import MAX_CODE_SPAN_CHARS, MAX_TAG_CHARS
from semel.text.visible import is_blank

BITS = [
    '<message to="a">', "<message to='b'>", "<MESSAGE TO=zz>", "</message>", "<internal>", "</internal>", "<message>",
    '<message to="', "<message x=1>", "<internal/>", '<message to="a"/>', "<", "</", "<mess", "age to=a>", "`", "``",
    "```", "~~~", "\n", "\r\n", "\r", " ", "    ", "\t", "x", "y z", "\\", "&amp;", '"', "'", ">", "é", "\n```\n",
    "\u200b",
]  # fmt: skip
TAGS = re.compile(r"""</?(message|internal)(\s+(to|x)=("[^"<]*"|'[^'<]*'|\w+))?\s*/?>""", re.IGNORECASE)
TEXT = st.lists(st.sampled_from(BITS), max_size=18).map("".join)


@given(TEXT, st.lists(st.integers(0, 200), max_size=12))
@settings(max_examples=count_examples(400), deadline=None)
def test_chunks_never_change_what_a_block_says(text: str, where: list[int]) -> None:
    edges = sorted({0, len(text), *(at % (len(text) + 1) for at in where)})
    whole = read([text])
    assert read([text[lo:hi] for lo, hi in pairwise(edges)]) == whole
    assert read(list(text)) == whole


@given(TEXT, st.lists(st.integers(0, 200), max_size=3), st.lists(st.integers(0, 200), max_size=12))
@settings(max_examples=count_examples(400), deadline=None)
def test_chunks_never_change_where_a_file_stands(text: str, files: list[int], where: list[int]) -> None:
    places = sorted(at % (len(text) + 1) for at in files)

    def pieces(edges: list[int]) -> list[Piece]:
        reader = MarkupReader(True, ("home", "a", "b"))
        found: list[Piece] = []
        for lo, hi in pairwise(sorted({0, len(text), *places, *edges})):
            for n in [n for n, at in enumerate(places) if at == lo]:
                found += reader.add_file(n)
            found += reader.feed(text[lo:hi])
        for n in [n for n, at in enumerate(places) if at == len(text)]:
            found += reader.add_file(n)
        return joined([*found, *reader.end()])

    whole = pieces([])
    assert pieces([at % (len(text) + 1) for at in where]) == whole == pieces(list(range(len(text))))
    told = [piece.file for piece in whole if isinstance(piece, AddressedFile)]
    held = [one for piece in whole if isinstance(piece, MarkupProblem) for one in piece.files]
    assert len({*told, *held}) == len(told) + len(held), "each at one place only"


@given(TEXT)
@settings(max_examples=count_examples(400))
def test_nothing_but_tags_and_what_shows_nothing_is_ever_lost(text: str) -> None:
    given_back = Counter("".join(piece.text for piece in read([text]) if not isinstance(piece, AddressedFile)))
    wanted = Counter(sign for sign in TAGS.sub("", text) if not is_blank(sign))
    assert wanted <= given_back


@given(TEXT)
@settings(max_examples=count_examples(200))
def test_what_goes_home_is_the_text_with_pieces_taken_out_and_nothing_put_in(text: str) -> None:
    letters = iter(text)
    at_home = (piece.text for piece in read([text]) if isinstance(piece, Said) and not piece.final)
    assert all(char in letters for char in "".join(at_home))


@given(st.text(st.sampled_from("ab <>/`~\n\\&;'\"")))
def test_text_without_tags_goes_home_whole(text: str) -> None:
    assert read([text]) == ([Said(None, text)] if text else [])


@given(TEXT)
def test_nothing_in_a_fence_is_ever_markup(text: str) -> None:
    fenced = "~~~~\n" + text.replace("~", "-") + "\n~~~~\n"
    assert read([fenced]) == [Said(None, fenced)]


@given(TEXT)
def test_the_pieces_name_only_known_destinations_and_no_body_is_blank(text: str) -> None:
    for piece in read([text]):
        if isinstance(piece, Said) and piece.final:
            assert piece.dest in ("a", "b") and not is_blank(piece.text)
        if isinstance(piece, MarkupProblem):
            assert piece.names == ("a", "b") and piece.reason and not is_blank(piece.text)


@pytest.mark.parametrize(
    ("chunks", "shown"),
    [
        (["Hello", " wor", "ld"], ["Hello", " wor", "ld"]),
        (["a <", " b"], ["a ", "< b"]),
        (["a <mess", "ing"], ["a ", "<messing"]),
        (["x `co", "de` y"], ["x `co", "de` y"]),
        (["``", "`py\nco", "de"], ["``", "`py\nco", "de"]),
        (["hi <message to=a>sec", "ret</message> yo"], ["hi ", "yo"]),
        (["<inter", "nal>no", "</internal>yes"], ["", "", "yes"]),
        (["`<message to=a>", "` it ", "is\n", "so"], ["`", "", "<message to=a>` it is\n", "so"]),
        (["\n\n", "Hi"], ["", "\n\nHi"]),
    ],
)
def test_home_text_is_previewed_as_it_comes_but_for_what_may_become_markup(chunks: list[str], shown: list[str]) -> None:
    reader = MarkupReader(True, ("a",))
    got = [[p.text for p in reader.feed(chunk) if isinstance(p, Said) and p.dest is None] for chunk in chunks]
    assert ["".join(texts) for texts in got] == shown[: len(chunks)]
    assert "".join(p.text for p in reader.end() if isinstance(p, Said) and p.dest is None) == "".join(
        shown[len(chunks) :]
    )


def test_a_body_is_given_when_it_closes_and_not_before() -> None:
    reader = MarkupReader(True, ("a",))
    assert reader.feed('<message to="a">one ') == []
    assert reader.feed("two</messa") == []
    assert reader.feed("ge>") == [Said("a", "one two", final=True)]
    assert reader.end() == []


HOSTILE = {
    "angles": "<" * 300_000,
    "half tags": "<message " * 30_000,
    "unclosed messages": '<message to="a">' * 20_000,
    "unclosed internals": "<internal>" * 30_000,
    "stray ends": "</message>" * 30_000,
    "nobody": '<message to="zz">y</message>' * 10_000,
    "blank tags": ("<message" + " " * (MAX_TAG_CHARS + 1)) * 500,
    "quotes": '<message to=">>>>>>>>' * 15_000,
    "backticks": "` " * 150_000,
    "rising backticks": "".join("`" * (n % 60 + 1) + "<message to=a>" for n in range(6_000)),
    "white space": "<internal>a</internal>" + " " * 300_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_read_in_linear_time_and_little_of_it_waits(name: str) -> None:
    text = HOSTILE[name]
    reader, waits, began = MarkupReader(True, ("a",)), 0, time.process_time()
    for at in range(0, len(text), 100):
        reader.feed(text[at : at + 100])
        waits = max(waits, reader.waiting)
    reader.end()
    assert waits <= MAX_CODE_SPAN_CHARS + 100
    assert time.process_time() - began < 10  # about 0.3 seconds; a quadratic reading takes minutes
