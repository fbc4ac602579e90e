"""Law 7: long texts are cut before anything is sent, and lose nothing by it."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer_cases import count_examples
from semel.text.fences import find_fences
from semel.text.graphemes import is_inside_grapheme
from semel.text.split import Unit, measure, render_parts

BITS = ["word ", "x", "a b. ", "\n", "\n\n", "\r\n", "```py\n", "```\n", "~~~ t\n", "~~~\n", "é", "e\u0301", "👍🏽",
        "👩‍👩‍👧", "🇩🇪", "한", "\u1112\u1161\u11ab", "    ", "\u3002"]  # fmt: skip
TEXT = st.lists(st.sampled_from(BITS), max_size=40).map("".join) | st.text(max_size=40)
UNITS: st.SearchStrategy[Unit] = st.sampled_from(["char", "utf16", "byte"])


def parts(text: str, limit: int, unit: Unit = "char") -> list[str]:
    return [sent for _, _, sent in render_parts(text, limit, unit)]


@given(TEXT, st.integers(1, 60), UNITS)
@settings(max_examples=count_examples(400))
def test_parts_cover_the_text_exactly_and_in_order(text: str, limit: int, unit: Unit) -> None:
    cuts = [(lo, hi) for lo, hi, _ in render_parts(text, limit, unit)]
    assert "".join(text[lo:hi] for lo, hi in cuts) == text
    assert all(lo < hi for lo, hi in cuts)
    assert all(one[1] == two[0] for one, two in pairwise(cuts))


@given(TEXT, st.integers(4, 60), UNITS)
@settings(max_examples=count_examples(600))
def test_no_part_is_longer_than_the_limit_as_it_is_sent(text: str, limit: int, unit: Unit) -> None:
    for lo, hi, sent in render_parts(text, limit, unit):
        assert measure(sent, unit) <= limit
        assert text[lo:hi] in sent or (measure(text[lo:hi], unit) > limit - 8 and text[lo:hi].strip() in sent)


@given(TEXT, st.integers(8, 60), st.integers(4, 60), UNITS)
@settings(max_examples=count_examples(400))
def test_only_the_first_part_keeps_a_lower_limit(text: str, limit: int, first: int, unit: Unit) -> None:
    parts = render_parts(text, limit, unit, first)
    assert "".join(text[lo:hi] for lo, hi, _ in parts) == text
    assert all(one[1] == two[0] for one, two in pairwise(parts))
    assert all(measure(sent, unit) <= (limit if lo else min(first, limit)) for lo, _, sent in parts)


def test_a_caption_with_one_very_long_word_goes_on_in_one_message() -> None:
    assert [hi - lo for lo, hi, _ in render_parts("Here: " + "x" * 2000, 4000, first_limit=1000)] == [6, 2000]
    assert [hi - lo for lo, hi, _ in render_parts(" " * 1500 + "x" * 600, 4000, first_limit=1000)] == [2100]


@given(TEXT, st.integers(40, 80), UNITS)
@settings(max_examples=count_examples(300))
def test_every_fence_that_is_cut_is_closed_in_its_part(text: str, limit: int, unit: Unit) -> None:
    cuts = render_parts(text, limit, unit)
    for lo, hi, sent in cuts[:-1]:
        inside = next((f for f in find_fences(text) if f.inner <= hi <= f.close and hi < f.hi), None)
        opened = next((f for f in find_fences(text) if f.lo < lo < f.inner), None)
        if inside and not opened and "\r" not in text:
            last = list(find_fences(sent))[-1]
            assert last.close < last.hi, sent


@given(TEXT, st.integers(48, 80), UNITS)
@settings(max_examples=count_examples(300))
def test_no_visible_character_is_torn_where_the_limit_has_room_for_it(text: str, limit: int, unit: Unit) -> None:
    runs = [0, *(at for at in range(1, len(text) + 1) if not is_inside_grapheme(text, at))]
    if max((measure(text[a:b], unit) for a, b in pairwise(runs)), default=0) <= 12:
        assert not any(is_inside_grapheme(text, hi) for _, hi, _ in render_parts(text, limit, unit))


@given(st.text(st.sampled_from("ab \n"), max_size=60), st.integers(8, 20))
def test_a_text_that_says_something_ends_with_a_part_that_says_something(text: str, limit: int) -> None:
    tail = len(text) - len(text.rstrip())
    if text.strip() and tail < limit - 1:
        assert parts(text, limit)[-1].strip()


@pytest.mark.parametrize(
    ("text", "limit", "want"),
    [
        ("", 10, []),
        ("short", 10, ["short"]),
        ("exactly ten", 11, ["exactly ten"]),
        ("one two three", 8, ["one two ", "three"]),
        ("One. Two! Three four", 12, ["One. Two! ", "Three four"]),
        ("line one\nline two\nline", 20, ["line one\nline two\n", "line"]),
        ("para\n\none two three", 12, ["para\n\n", "one two ", "three"]),
        ("a\r\n\r\nb c d e f g", 9, ["a\r\n\r\n", "b c d e ", "f g"]),
        ("xxxxxxxxxxxx", 5, ["xxxxx", "xxxxx", "xx"]),
        ("ab\n" + "c" * 30, 20, ["ab\n", "c" * 20, "c" * 10]),
        ("12345678\n", 8, ["1234567", "8\n"]),
        ("see\n```py\na = 1\nb = 2\nc = 3\nd = 4\n```\nend", 28,
         ["see\n```py\na = 1\nb = 2\n```", "```py\nc = 3\nd = 4\n```\nend"]),
        ("intro\n\n```\nx\ny\n```\n", 16, ["intro\n\n", "```\nx\ny\n```\n"]),
        ("```averyveryverylonglanguage\na\nb\nc\nd\ne\nf\ng\n```", 34,
         ["```averyveryverylonglanguage\n" + "a" + "\n```", "```\nb\nc\nd\ne\nf\ng\n```"]),
    ],
)  # fmt: skip
def test_a_cut_prefers_paragraphs_then_lines_sentences_and_words(text: str, limit: int, want: list[str]) -> None:
    assert parts(text, limit) == want


@pytest.mark.parametrize(
    ("text", "limit", "unit", "want"),
    [
        ("👍👍👍", 4, "utf16", ["👍👍", "👍"]),
        ("👍👍👍", 2, "char", ["👍👍", "👍"]),
        ("ééé", 4, "byte", ["éé", "é"]),
        ("xxe\u0301", 3, "char", ["xx", "e\u0301"]),
        ("x👩‍👩‍👧", 5, "char", ["x", "👩‍👩‍👧"]),
        ("🇩🇪🇫🇷", 3, "char", ["🇩🇪", "🇫🇷"]),
        ("x👍🏽", 2, "char", ["x", "👍🏽"]),
        ("x\u1112\u1161\u11ab", 3, "char", ["x", "\u1112\u1161\u11ab"]),
        ("\ud83d\udc4d\ud83d\udc4d", 3, "utf16", ["\ud83d\udc4d", "\ud83d\udc4d"]),
        ("👩‍👩‍👧", 2, "char", ["👩‍", "👩‍", "👧"]),
        ("é👍", 1, "byte", ["é", "👍"]),
    ],
)
def test_lengths_are_counted_as_the_platform_counts_and_characters_stay_whole(
    text: str, limit: int, unit: Unit, want: list[str]
) -> None:
    assert parts(text, limit, unit) == want


def test_a_limit_without_room_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="give at least 1"):
        render_parts("a", 0)


def test_a_fence_too_large_for_the_limit_is_cut_without_being_dressed() -> None:
    text = "`" * 30 + "\ncode\n" + "`" * 30
    assert "".join(parts(text, 16)) == text


def test_a_million_characters_are_split_in_linear_time() -> None:
    text = ("Some words here. " * 50 + "\n\n```py\n" + "code(1)\n" * 50 + "```\n\n") * 400
    began = time.process_time()
    assert len(render_parts(text, 4096, "utf16")) in range(100, 300)
    assert time.process_time() - began < 10  # about half a second


@given(st.text(st.sampled_from(" \n\tab`."), min_size=1, max_size=120), st.integers(2, 20), UNITS)
def test_no_part_is_white_space_alone(text: str, limit: int, unit: Unit) -> None:
    """A platform would refuse it, though nothing of what was said is in it."""
    parts = render_parts(text, limit, unit)
    assert all(sent.strip() for _, _, sent in parts) or not text.strip()


def test_a_gap_that_is_longer_than_a_part_belongs_to_the_part_before_it() -> None:
    text = "one" + "\n" * 50 + "two"
    assert render_parts(text, 8) == [(0, 48, "one"), (48, 56, "\n\n\n\n\ntwo")]
    assert render_parts("\n" * 50 + "two", 8) == [(0, 53, "two")]


def test_a_gap_that_lies_in_a_fence_whose_first_line_was_cut_makes_no_part_longer_than_the_limit() -> None:
    for limit in range(12, 45):
        text = "```" + "p" * (2 * limit - 3) + "\n\n" + "c" * 100 + "\n```\n"
        assert all(measure(shown, "char") <= limit for _, _, shown in render_parts(text, limit)), limit
