"""Texts of others become sentences with exactly one mark at their end."""

from __future__ import annotations

import pytest

from semel.acp_stream.profiles import CAREFUL
from semel.agents.model.failures import _add_advice
from semel.gateway.turns.turn_end import make_retry_notice
from semel.text.sentences import join_sentences


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        (("sorry about that!", "The fault is the server's"), "sorry about that! The fault is the server's"),
        (("it ended. ", "Try again."), "it ended. Try again."),
        (("no credit left", "", "Buy some", "Now"), "no credit left. Buy some. Now"),
        (("Is it there?", ""), "Is it there?"),
        (("", " "), ""),
    ],
)  # fmt: skip
def test_joined_texts_have_one_mark_between_them(texts: tuple[str, ...], joined: str) -> None:
    assert join_sentences(*texts) == joined


def test_reasons_that_others_end_with_a_mark_get_no_second_one() -> None:
    assert make_retry_notice("Sorry about that!", 5, 2).text == (
        "The agent's turn failed: Sorry about that! It is tried again in 5 s (attempt 2)."
    )
    assert (
        _add_advice("Sorry about that!", "The fault is the server's") == "Sorry about that! The fault is the server's"
    )
    assert CAREFUL.add_hints("Sorry about that!") == "Sorry about that!"
