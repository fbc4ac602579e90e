"""Law 5: what counts as the same words."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.text.fences import find_fences
from semel.text.graphemes import MAX_JOINING_RUN, may_join_previous, nfc
from semel.text.verbatim import verbatim_digest, verbatim_form

CHARS = st.sampled_from("ab \n\r\t`~eé\u0301\u0323\u1100\u1161\u11a8각\u2000\u1fef\u00a0\u3000")
TEXT = st.text(CHARS, max_size=30)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Report is ready.", "  Report is ready.\n"),
        ("hello world", "hello\nworld"),
        ("hello world", "hello \t \r\n world"),
        ("hello world", "hello\u00a0world"),
        ("line one line two", "line one\n\nline two"),
        ("caf\u00e9", "cafe\u0301"),
        ("a\u0323\u0301", "a\u0301\u0323"),
        ("\u1112\u1161\u11ab", "한"),
        ("```\na  b\n```", "```\r\na  b\r\n```\r\n"),
        ("see\n```\nx\n```\nok", "see\n\n```\nx\n```\n\nok  "),
        ("   ```\nx\n```", "```\nx\n```"),
        ("~~~\nx\n", "~~~\nx"),
        ("a `b  c` d", "a `b c` d"),
    ],
)
def test_the_same_words_have_one_digest(one: str, other: str) -> None:
    assert verbatim_form(one) == verbatim_form(other)
    assert verbatim_digest(one) == verbatim_digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Report is ready.", "Report is ready"),
        ("Report is ready.", "report is ready."),
        ("Report is ready.", "I sent: Report is ready."),
        ("ab", "a b"),
        ("```\na  b\n```", "```\na b\n```"),
        ("```\na\n\nb\n```", "```\na\nb\n```"),
        ("```\n  a\n```", "```\na\n```"),
        ("```py\na\n```", "```\na\n```"),
        ("~~~\na\n~~~", "```\na\n```"),
        ("a ``` b", "a\n``` b"),
        ("ﬁne", "fine"),
        ("½", "1/2"),
        ("", "."),
    ],
)
def test_other_words_have_another_digest(one: str, other: str) -> None:
    assert verbatim_form(one) != verbatim_form(other)
    assert verbatim_digest(one) != verbatim_digest(other)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("", ""),
        (" \n\t", ""),
        ("a  b", "a b"),
        ("a\n```\n x\n\n```\nb  c", "a\n```\n x\n\n```\nb c"),
        ("```\na\n``\n  ```  \nb", "```\na\n``\n  ```\nb"),
        ("````\n```\n  x\n````\n y", "````\n```\n  x\n````\ny"),
        ("~~~ a`b\n x\n~~~", "~~~ a`b\n x\n~~~"),
        ("``` a`b\n  x", "``` a`b x"),
        ("    ```\n  x", "``` x"),
        ("\t```\n  x", "``` x"),
        ("```\n x\n    ```\n y\n", "```\n x\n    ```\n y"),
        ("```\n x\n``` y\n  z\n", "```\n x\n``` y\n  z"),
        ("```\r a\r```\r b", "```\n a\n```\nb"),
        ("```\nx\n```\n```\ny\n```", "```\nx\n```\n```\ny\n```"),
        ("> ```\n> a  b", "> ``` > a b"),
    ],
)
def test_white_space_is_one_blank_outside_fences_and_exact_inside(text: str, form: str) -> None:
    assert verbatim_form(text) == form


@given(TEXT)
def test_the_form_of_a_form_is_itself_where_no_fence_can_appear(text: str) -> None:
    form = verbatim_form(text.replace("``", "").replace("~~", "").replace("\u1fef", ""))
    assert verbatim_form(form) == form


@given(TEXT)
def test_the_form_ignores_how_the_text_was_composed(text: str) -> None:
    assert verbatim_form(unicodedata.normalize("NFD", text)) == verbatim_form(text)


@given(TEXT, st.text(st.sampled_from(" \n"), max_size=4), st.text(st.sampled_from(" \n"), max_size=4))
def test_the_ends_are_trimmed(text: str, before: str, behind: str) -> None:
    assert verbatim_form(text + behind) == verbatim_form(text)
    assert verbatim_form("\n" + before + "\n" + text) == verbatim_form(text)


@given(st.text(st.sampled_from("a \n`~\r"), max_size=40))
def test_fences_lie_in_order_and_in_the_text(text: str) -> None:
    at = 0
    for fence in find_fences(text):
        assert at <= fence.lo < fence.inner <= fence.close <= fence.hi <= len(text) or fence.inner == len(text)
        assert text.startswith(fence.marker, fence.lo)
        at = fence.hi


def test_a_piece_may_be_composed_on_its_own_wherever_the_rule_allows_a_cut() -> None:
    """Of every composition that this Python knows: what composes backwards joins, what does not begins anew."""
    for char in map(chr, range(sys.maxunicode + 1)):
        parts = unicodedata.decomposition(char).split()
        if not parts or parts[0].startswith("<"):
            continue
        assert may_join_previous(char) or not may_join_previous(unicodedata.normalize("NFD", char)[0]), (
            f"U+{ord(char):04X}"
        )
        if len(parts) == 2 and nfc(char) == char:
            assert may_join_previous(chr(int(parts[1], 16))), f"U+{ord(char):04X} composes with U+{parts[1]}"
    assert all(map(may_join_previous, "\u1161\u1175\u11a8\u11c2"))


@given(st.text())
def test_composing_in_pieces_gives_the_composed_whole(text: str) -> None:
    assert nfc(text) == unicodedata.normalize("NFC", text)


def test_a_run_of_a_hundred_thousand_marks_takes_linear_time() -> None:
    text = "a" + "\u0301\u0323" * 100_000
    assert len(nfc(text)) in range(len(text) - 2, len(text) + 1)
    assert nfc("b" + text[: MAX_JOINING_RUN + 1]) == unicodedata.normalize("NFC", "b" + text[: MAX_JOINING_RUN + 1])
