"""Law 9: an interrupted turn is finished from the agent's history only if its own answer stands there."""

from __future__ import annotations

from semel.law import recall
from semel.law.stream import Fold

ASKED = "Shall I go on? Say yes or no."


def history(*pairs: tuple[str, str]) -> Fold:
    """A restored agent's history: prompts and answers."""
    fold = Fold()
    for role, text in pairs:
        kind = "user_message_chunk" if role == "user" else "agent_message_chunk"
        fold.update({"sessionUpdate": kind, "content": {"type": "text", "text": text}}, replay=True)
    fold.settle()
    return fold


def answer(fold: Fold, asked: str, *before: tuple[str, str]) -> list[str] | None:
    found = recall.answer(list(fold.items()), [asked], before)
    return None if found is None else [one.text for one in found]


def test_an_answer_behind_its_own_prompt_is_found() -> None:
    fold = history(("user", "hello"), ("agent", "Hi."), ("user", "yes"), ("agent", "Gone on."))
    assert answer(fold, "yes", ("user", "hello"), ("agent", "Hi.")) == ["Gone on."]


def test_a_short_message_is_not_answered_by_a_longer_one_that_holds_it() -> None:
    fold = history(("user", ASKED), ("agent", "I say yes."))
    assert answer(fold, "yes", ("user", ASKED), ("agent", "I say yes.")) is None


def test_the_same_message_again_is_not_answered_by_what_was_said_to_the_first() -> None:
    before = (("user", "yes"), ("agent", "Gone on."))
    assert answer(history(*before), "yes", *before) is None
    again = history(*before, ("user", "yes"), ("agent", "Further still."))
    assert answer(again, "yes", *before) == ["Further still."]


def test_a_prompt_without_an_answer_is_not_complete() -> None:
    assert answer(history(("user", "yes")), "yes") is None
