"""Law 5: while a streaming block may still repeat something said, it is held."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fewer_cases import count_examples
from semel.text.verbatim import EchoHold, verbatim_form

LETTERS = ["a", "b", " ", "  ", "\n", "\r\n", "\r", "\t", "`", "```", "~~~", "~", "\n```\n", "\n```py\n", "    "]
MARKS = [
    "e",
    "é",
    "\u0301",
    "\u0323",
    "\u0338",
    "=",
    "≠",
    "\u1100",
    "\u1161",
    "\u11a8",
    "각",
    "\u2000",
    "\u1fef",
    "\u0958",
]
TEXT = st.lists(st.sampled_from(LETTERS + MARKS), max_size=14).map("".join)


def stream(originals: list[str], chunks: list[str]) -> tuple[list[str], str, str | None]:
    hold = EchoHold(map(verbatim_form, originals))
    shown = [hold.feed(chunk) for chunk in chunks]
    rest, echo = hold.end()
    return shown, "".join(shown) + rest, echo


def cut(text: str, where: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(at % (len(text) + 1) for at in where)})
    return [text[lo:hi] for lo, hi in pairwise(edges)]


@given(TEXT, st.lists(TEXT, max_size=3), st.lists(st.integers(0, 50)))
@example("``` ```\nx", ["``` ``` x"], [3, 4, 5])
@example("```a\n`b", ["```a `b"], [1, 2, 3, 4, 5])
@settings(max_examples=count_examples(400), deadline=None)
def test_chunks_never_change_the_judgement_and_it_equals_the_whole_text_one(
    text: str, originals: list[str], where: list[int]
) -> None:
    _, shown, echo = stream(originals, cut(text, where))
    same = verbatim_form(text) in {verbatim_form(original) for original in originals} and verbatim_form(text) != ""
    assert echo == (verbatim_form(text) if same else None)
    assert shown == ("" if same else text)


@given(TEXT, TEXT, st.lists(TEXT, max_size=3), st.lists(st.integers(0, 50)))
@settings(max_examples=count_examples(400), deadline=None)
def test_nothing_is_let_through_that_could_still_become_a_repeat(
    text: str, more: str, originals: list[str], where: list[int]
) -> None:
    assume(verbatim_form(text + more))
    hold = EchoHold(map(verbatim_form, [*originals, text + more]))
    assert "".join(hold.feed(chunk) for chunk in cut(text, where)) == ""
    assert hold.is_holding


@given(TEXT, st.lists(TEXT, max_size=3), st.lists(st.integers(0, 50)))
@settings(max_examples=count_examples(400), deadline=None)
def test_what_is_shown_so_far_depends_on_the_text_and_not_on_its_chunks(
    text: str, originals: list[str], where: list[int]
) -> None:
    whole, parts = EchoHold(map(verbatim_form, originals)), EchoHold(map(verbatim_form, originals))
    shown = "".join(parts.feed(chunk) for chunk in cut(text, where))
    assert whole.feed(text) == shown
    assert whole.is_holding == parts.is_holding


@pytest.mark.parametrize(
    ("original", "chunks", "shown", "echo"),
    [
        ("Today", ["T", "o", "m", "orrow"], ["", "", "Tom", "orrow"], False),
        ("Today", ["Today"], [""], True),
        ("Today", ["To", "day", " \n"], ["", "", ""], True),
        ("Today", ["Today", " I am free"], ["", "Today I am free"], False),
        ("Today", ["Today", "!"], ["", "Today!"], False),
        ("Today", ["  To"], [""], False),
        ("hello world", ["hello\n", "world"], ["", ""], True),
        ("caf\u00e9", ["cafe", "\u0301"], ["", ""], True),
        ("caf\u00e9", ["cafe", "s"], ["", "cafes"], False),
        ("cafe", ["cafe", "\u0301", "s"], ["", "", "cafe\u0301s"], False),
        ("\u1ec7", ["e\u0302", "\u0323"], ["", ""], True),
        ("한국", ["\u1112", "\u1161", "\u11ab", "국"], ["", "", "", ""], True),
        ("```py\na\n```", ["``", "`py", "\na\n", "``` "], ["", "", "", ""], True),
        ("```py\na  b", ["```py\na", " b"], ["", "```py\na b"], False),
        ("a ```b` c", ["a\n``", "`b`", " c"], ["", "", ""], True),
        ("Report", ["`", "x`"], ["`", "x`"], False),
    ],
)
def test_the_first_character_that_differs_lets_everything_through(
    original: str, chunks: list[str], shown: list[str], echo: bool
) -> None:
    got, _, same = stream([original], chunks)
    assert got == shown
    assert (same is not None) == echo


def test_without_originals_everything_is_shown_at_once() -> None:
    hold = EchoHold([])
    assert [hold.feed("a"), hold.feed("  ")] == ["a", "  "]
    assert not hold.is_holding and hold.end() == ("", None)
    assert EchoHold([""]).feed("a") == "a"


def test_a_block_that_stops_short_of_an_original_is_shown_at_its_end() -> None:
    hold = EchoHold(["Tomorrow at 2pm", "Tomorrow"])
    assert hold.feed("Tom") == ""
    assert repr(hold) == "<Hold holding held=3 originals=2>"
    assert hold.end() == ("Tom", None)


def test_the_longest_of_several_originals_keeps_a_block_held() -> None:
    hold = EchoHold(["On it", "On it, looking", "Off"])
    assert [hold.feed(t) for t in ("On it", ", look", "ing")] == ["", "", ""]
    assert hold.end().echo == "On it, looking"


def test_a_blank_block_repeats_nothing() -> None:
    hold = EchoHold(["a"])
    assert hold.feed(" \n") == ""
    assert hold.end() == (" \n", None)


def test_holding_a_long_block_in_small_chunks_takes_linear_time() -> None:
    text = "a" + "\u0301" * 20_000 + "`~ ```x\n" * 10_000
    hold = EchoHold([verbatim_form(text), verbatim_form(text) + "!"])
    assert not any(hold.feed(text[at : at + 3]) for at in range(0, len(text), 3))
    assert hold.end().echo == verbatim_form(text)
