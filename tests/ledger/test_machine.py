"""The state machines of the proof, a short run of each: `python -m proof machines` is the long one.

After every step all books hold, every view is true, and every answer is what a simple model expects. The dice are the
same each time.
"""

from __future__ import annotations

from typing import Any

import pytest

from proof.machines.engines import ENGINE, rows
from proof.machines.ledger import Ledger
from proof.machines.machine import LedgerMachine
from proof.machines.main import PLANS, Plan, Task, one
from proof.machines.stored import StoredLedger
from semel.law import delivery
from semel.ledger.delivery import claims
from semel.ledger.turns import finish_turn, turn_ops, turns

SQLITE_ONLY = {"restore"} if ENGINE != "sqlite" else set()
"""Machines that put copies of SQLite's file back."""
ELSEWHERE = {"ledger", "cost"}
"""Machines of the test below, or that take as long here as in `make prove-quick`."""


@pytest.mark.parametrize("name", [name for name in PLANS if name not in ELSEWHERE | SQLITE_ONLY])
def test_each_law_holds_whatever_happens(name: str) -> None:
    found = one(Task(name, seed=1, lives=min(4, PLANS[name].lives)))
    assert not found.broken, f"{found.broken}; replay: {found.task.replay}"
    assert found.steps > 40


@pytest.mark.parametrize("seed", range(1, 3))
def test_the_ledger_holds_whatever_happens(seed: int) -> None:
    found = one(Task("ledger", seed, lives=4))
    assert not found.broken, f"{found.broken}; replay: {found.task.replay}"
    assert found.steps > 100


class BlindRetry(StoredLedger):
    """A ledger that takes what was under way when its gateway died for not sent."""

    def recover(self, rules: Any) -> Any:
        for part in self.parts():
            if part.state == "sending":
                self.write(lambda tx, id: tx.run("part_wait", id=id, due=tx.now), part.id)
                self.write(_queued, part.id)
        return super().recover(rules)


def _queued(tx: Any, part: int) -> None:
    rows(tx, f"UPDATE part SET state = 'queued' WHERE id = {part}")


class ForgetsWakes(StoredLedger):
    """A ledger that has nothing to do after a turn, whatever was heard meanwhile."""

    def finish(
        self, fence: turns.TurnFence, caller: claims.Caller, ops: Any, slots: turn_ops.Slots, end: finish_turn.End
    ) -> tuple[turn_ops.Slots, bool]:
        done = super().finish(fence, caller, ops, slots, end)
        self.write(lambda tx: tx.run("session_clear_wake", id=fence.session))
        return done


class TellsNobody(StoredLedger):
    """A ledger whose watchers miss every second change."""

    def changes(self) -> Any:
        return super().changes()[::2]


class SendsTwice(StoredLedger):
    """A ledger that gives a part out again while it is under way."""

    def receipt(self, part: int, outcome: Any, rules: delivery.Rules) -> delivery.State:
        done = super().receipt(part, outcome, rules)
        if done == "unknown":
            self.write(_queued, part)
        return done


@pytest.mark.proof
@pytest.mark.parametrize("make", [BlindRetry, ForgetsWakes, TellsNobody, SendsTwice])
def test_a_ledger_that_breaks_a_law_is_found_out(make: type[Ledger], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = PLANS["ledger"]
    broken = type("Broken", (LedgerMachine,), {"make": make})
    monkeypatch.setitem(PLANS, "ledger", Plan(broken, plan.lives, plan.steps, 1, 1))
    assert any(one(Task("ledger", seed, lives=6)).broken for seed in range(20))
