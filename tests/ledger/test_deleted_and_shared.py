"""A session that shares its home with another is deleted: what others see of it stays true, and nothing comes back."""

from __future__ import annotations

import pytest

from proof.machines.model import Model
from proof.machines.stored import StoredLedger
from semel.acp_stream import Began, Ended
from semel.ledger.inbound import hear


@pytest.fixture
def model() -> Model:
    """`chat` and `chat-too` share a home; each has a running turn."""
    model = Model(StoredLedger)
    model.hear("api", None, "hello", ["chat", "chat-too"], True)
    for key in ("chat", "chat-too"):
        model.begin(key)
    return model


def told(model: Model) -> None:
    model.call(model.runs["chat"].process, "k", "c1", None, "text", "told", None)


def test_the_copy_of_a_refused_text_changes_before_its_watchers_when_the_first_one_is_erased(model: Model) -> None:
    told(model)
    model.depart(1)
    model.settle(model.sent[0], "refused")
    model.house.delete("chat")
    while model.house.seen(model.ledger.erase(model.house.ids["chat"])) == "more":
        pass
    model.house.check()


def test_what_leaves_after_the_deletion_is_not_shown_in_the_new_conversation(model: Model) -> None:
    told(model)
    model.depart(1)
    model.house.delete("chat")
    model.house.hear(hear.Event("api", None, "message", "anew", b"1"), "chat")
    model.settle(model.sent[0], "receipt")
    model.house.check()
    assert [entry["text"] for entry in model.house.clients[model.house.ids["chat"]].entries.values()] == ["anew"]


def test_a_late_call_for_a_deleted_session_breaks_no_book(model: Model) -> None:
    late = model.runs["chat-too"].process
    model.house.delete("chat-too")
    model._over("chat-too")
    model.ended[late.turn] = "cancelled"
    model.call(late, "k", "c1", None, "text", "late", None)
    told(model)
    model.house.check()


def test_a_session_without_a_home_is_told_once_what_a_lost_attempt_said() -> None:
    model = Model(StoredLedger)
    model.hear("api", None, "hello", ["job"], True)
    for _ in range(2):
        model.begin("job", restored=True)
        run = model.runs["job"]
        model.take(run, Began(2, "message", {"role": "agent", "text": "ha"}), Ended(2, {}), now=True)
        model.die(run, shown=False)
    assert [claim.outcome for claim in model.ledger.claims()] == ["said", "echo"]
    model.house.check()
