"""The machines find out who breaks a law, and say in words what broke."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis.internal.conjecture import providers

from proof.machines.ledger import Ledger
from proof.machines.machine import LedgerMachine
from proof.machines.main import PLANS, Plan, Task, counts, one
from proof.machines.model import Model
from proof.machines.stored import StoredLedger
from semel.acp_stream import Began, Ended
from semel.gateway.turns.permissions import Permissions
from semel.law import wake
from semel.ledger.inbound import hear

pytestmark = pytest.mark.proof


class StopsNobody(StoredLedger):
    """A ledger that does not keep that a person stopped a turn."""

    def stop(self, session: int, by: str) -> None:
        self.write(lambda tx: None)


class KeepsNoConflict(StoredLedger):
    """A ledger that answers other content with "conflict", and does not record it."""

    def hear(self, event: hear.Event, to: Any, start: Any = None) -> hear.HeardOutcome:
        done = super().hear(event, to, start)
        if done.status == "conflict":
            self.write(lambda tx: tx._cursor.execute("DELETE FROM conflict"))
            self._changes = []
        return done


class ForgetsEvents(StoredLedger):
    """A ledger that deletes the keys of what a deleted session heard."""

    def erase(self, session: int) -> str:
        self.write(lambda tx: tx._cursor.execute("UPDATE event SET key = NULL WHERE payload IS NULL"))
        return super().erase(session)


class KeepsNothingUnreadable(StoredLedger):
    """A ledger that says that it kept what nobody can read."""

    def quarantined(self) -> list[int]:
        return []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (StopsNobody, "a person stopped the turn of"),
        (KeepsNoConflict, "was not recorded"),
        (ForgetsEvents, "was heard before"),
        (KeepsNothingUnreadable, "what cannot be read was not kept"),
    ],
)
def test_what_broke_is_said_in_words(make: type[Ledger], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = PLANS["ledger"]
    broken = type("Broken", (LedgerMachine,), {"make": make})
    monkeypatch.setitem(PLANS, "ledger", Plan(broken, plan.lives, plan.steps, 1, 1))
    quickest_first = (*range(4, 12), *range(4))
    assert any(words in one(Task("ledger", seed)).broken for seed in quickest_first)


def recalled_after_telling(model: Model) -> None:
    """A tool told its person something; the agent died; its history holds a complete answer, and it goes on."""
    model.hear("api", None, "hello", ["chat"], True)
    model.begin("chat")
    model.call(model.runs["chat"].process, "first", "c1", None, "text", "told", None)
    model.die(model.runs["chat"], shown=True)
    model.begin("chat", complete=True)


def test_an_echo_whose_original_is_refused_later_in_the_same_step_is_no_violation() -> None:
    model = Model(StoredLedger)
    recalled_after_telling(model)
    model.call(model.runs["chat"].process, "again", "c1", None, "text", "told", None)
    model.depart(1)
    model.settle(model.sent[0], "refused")
    claims = {claim.id: claim for claim in model.ledger.claims()}
    assert [(one.outcome, claims[one.echo_of].fallen) for one in claims.values() if one.echo_of] == [("echo", True)]
    model.house.check()


class EchoesWhatFell(StoredLedger):
    """A ledger that calls a repeat an echo, whatever became of what it repeats."""

    def call(self, made: Any, what: Any) -> Any:
        done = super().call(made, what)
        if made.call.startswith("again"):
            self.write(_call_an_echo, done.claim_id)
        return done


def _call_an_echo(tx: Any, claim: int) -> None:
    tx._cursor.execute("UPDATE claim SET outcome = 'echo', echo_of = 1 WHERE id = :id", {"id": claim})


def test_an_echo_of_what_was_refused_before_is_found_out() -> None:
    model = Model(EchoesWhatFell)
    recalled_after_telling(model)
    model.depart(1)
    model.settle(model.sent[0], "refused")
    with pytest.raises(AssertionError, match="an echo of what nobody got"):
        model.call(model.runs["chat"].process, "again", "c1", None, "text", "told", None)


def test_an_answer_that_leaves_its_request_open_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(self: Permissions, item: int, option: str | None) -> None:
        for request in self.open.values():
            if request.item == item:
                self._answer(request.request, option)

    monkeypatch.setattr(Permissions, "pass_answer", answered)
    assert one(Task("permissions", 0)).broken


def test_a_wake_that_is_put_off_for_ever_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def woken(now: int, pending: wake.Wake | None, pause: wake.WakeDelay) -> wake.Wake:
        return wake.Wake(now + pause.debounce, pending.since if pending is not None else now)

    monkeypatch.setattr(wake, "next_wake", woken)
    assert "longer than it may" in one(Task("turns", 0)).broken


def test_the_seeds_are_counted_in_words() -> None:
    assert next(iter(counts([], ["ledger"], 7))) == "seeds (of each machine from 7 on)"


def test_a_seed_draws_nothing_from_the_modules_that_happen_to_be_loaded() -> None:
    """Hypothesis would: what is loaded where a violation is found is not what is loaded where it is replayed."""
    drawn = providers._get_local_constants()
    assert not drawn.strings and not drawn.integers


def test_what_answers_a_later_prompt_is_no_repeat_of_what_was_said_before_it() -> None:
    """A question that joins a restarted turn is answered in the words that the lost attempt had said."""
    model = Model(StoredLedger)
    model.hear("api", None, "hello", ["chat"], True)
    model.begin("chat")
    ha = (Began(2, "message", {"role": "agent", "text": "ha"}), Ended(2, {}))
    model.take(model.runs["chat"], *ha, now=True)
    model.die(model.runs["chat"], shown=False)
    model.begin("chat", restored=False)
    model.hear("api", None, "and now?", ["chat"], True, "steer")
    model.join(model.runs["chat"])
    model.take(model.runs["chat"], *ha, now=True)
    model.house.check()
    assert [claim.outcome for claim in model.ledger.claims() if claim.text == "ha"] == ["said", "said"]
