"""The rule machine over a PostgreSQL server that fails at each COMMIT: the laws hold, and the answers are the same."""

from __future__ import annotations

import pytest

from proof.machines.faults import FAULTS, Fault, faulty_commits
from proof.machines.main import Task, one


@pytest.mark.parametrize("fault", FAULTS)
def test_the_ledger_holds_though_each_first_commit_fails(fault: Fault) -> None:
    with faulty_commits(fault) as failed:
        found = one(Task("ledger", seed=5, lives=2))
    assert not found.broken, found.broken
    assert found.steps > 30
    assert failed[0] > found.steps / 2
