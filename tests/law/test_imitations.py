"""Marks of ours in texts of others: known however they are written, and ordinary text is left as it is."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.text.prompt_marks import escape_semel_markers
from semel.text.visible import is_unseen, remove_unseen, squeeze_to_line

ORDINARY = [
    "", "[", "[]", "[x](semel)", "(semel: x)", "semel: x]", "[semelfactive verbs]", "[semele: x]", "[Semel2]", "[/]",
    "[seme l3]", "a [b] c", "\u3010\u65b0\u805e\u3011", "[assembler]", "\u0628\u064e", "[ssemel]", "[se", "[sem]el",
]  # fmt: skip
BETWEEN = st.text(
    st.sampled_from(" \t\n\u200b\xad\u202a\u2066\u034f\ufe0f\u3164\x00\u0301\u2800\U000e0001"), max_size=30
)
LETTERS = [
    st.sampled_from(forms) for forms in ("sS\uff53\u017f", "eE\u0435\uff45\xe9", "mM\uff2d", "eE\u24d4", "lL\u2113")
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert escape_semel_markers(text) == text


@given(st.lists(BETWEEN, min_size=6, max_size=6), st.tuples(*LETTERS), st.sampled_from(["", "/", "\uff0f"]))
def test_a_mark_is_known_however_it_is_written(between: list[str], letters: tuple[str, ...], slash: str) -> None:
    if "\u0435" in letters:  # another script's letter: what only looks like one is not held
        return
    inside = between[0] + slash + "".join(letter + blank for letter, blank in zip(letters, between[1:], strict=True))
    assert escape_semel_markers(f"a [{inside}: x]") == f"a ({inside}: x]"


@given(st.text())
def test_only_brackets_change(text: str) -> None:
    told = escape_semel_markers(text)
    assert len(told) == len(text)
    assert all(
        new == old or (new == "(" and unicodedata.category(old) == "Ps") for new, old in zip(told, text, strict=True)
    )
    assert escape_semel_markers(told) == told


class Counted(str):
    """A text that counts which of its characters are looked at one by one."""

    looks = 0

    def __getitem__(self, place: object) -> str:
        Counted.looks += isinstance(place, int)
        return super().__getitem__(place)  # type: ignore[index]


@pytest.mark.parametrize("text", ["[", "[ ", "[s", "[seme", "[semel", "[" + "\u200b" * 50, "[s e m e "])
def test_each_character_is_looked_at_for_few_brackets(text: str) -> None:
    Counted.looks = 0
    escape_semel_markers(Counted(text * 1000))
    assert Counted.looks <= 2 * len(text) * 1000


def test_what_cannot_be_seen() -> None:
    assert all(map(is_unseen, "\x00\x1b\x7f\x85\xad\u061c\u180e\u200b\u2028\u202e\u2066\u206a\u3164\ufeff\U000e0001"))
    assert not any(map(is_unseen, "a \xa0\u3000\u0301\u0e31\U0001f600\u4e00"))
    assert remove_unseen("a\u200b b\u202e\n") == "a b" and squeeze_to_line(" a\n\n\u200bb\u202e \x1bc ") == "a b c"
