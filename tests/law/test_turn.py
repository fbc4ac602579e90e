"""The life of a turn, as a table."""

from __future__ import annotations

import pytest

from semel.law.turn import FINISHED, MAX_ATTEMPTS, TABLE, NotAllowed, after_loss, step


@pytest.mark.parametrize(
    ("event", "state"),
    [("answered", "done"), ("errored", "failed"), ("cancelled", "cancelled"), ("lost", "lost"), ("given up", "failed")],
)
def test_a_running_turn_ends_in_one_of_five_ways(event: str, state: str) -> None:
    assert step("running", event) == state  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [*sorted(FINISHED), "lost"])
@pytest.mark.parametrize("event", list(TABLE["running"]))
def test_nothing_leaves_a_finished_or_a_dead_turn(state: str, event: str) -> None:
    with pytest.raises(NotAllowed):
        step(state, event)  # type: ignore[arg-type]


def lost(attempt: int = 2, tools: bool = False, restored: bool = False, complete: bool = False) -> str:
    return after_loss(attempt=attempt, tools_started=tools, restored=restored, history_complete=complete).how


def test_a_complete_answer_in_the_agents_history_is_never_asked_for_again() -> None:
    assert {lost(a, t, r, True) for a in (2, 3) for t in (True, False) for r in (True, False)} == {"recall"}


def test_a_turn_is_restarted_only_if_no_tool_had_started() -> None:
    assert lost(tools=False) == "restart"
    assert lost(tools=False, restored=True) == "restart"


def test_after_a_tool_it_is_resumed_where_the_agent_remembers_and_failed_where_not() -> None:
    assert lost(tools=True, restored=True) == "resume"
    assert lost(tools=True, restored=False) == "give up"


def test_there_are_at_most_three_attempts() -> None:
    assert MAX_ATTEMPTS == 3
    assert lost(attempt=4) == "give up"
    assert lost(attempt=4, tools=True, restored=True) == "give up"
