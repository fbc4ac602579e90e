"""The life of a turn, as a table."""

from __future__ import annotations

import pytest

from semel.law.turn import FINISHED, MAX_ATTEMPTS, TABLE, TurnStepNotAllowed, decide_after_loss, explain_giving_up, step


@pytest.mark.parametrize(
    ("event", "state"),
    [("answered", "done"), ("errored", "failed"), ("cancelled", "cancelled"), ("lost", "lost"), ("given up", "failed")],
)
def test_a_running_turn_ends_in_one_of_five_ways(event: str, state: str) -> None:
    assert step("running", event) == state  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [*sorted(FINISHED), "lost"])
@pytest.mark.parametrize("event", list(TABLE["running"]))
def test_nothing_leaves_a_finished_or_a_dead_turn(state: str, event: str) -> None:
    with pytest.raises(TurnStepNotAllowed):
        step(state, event)  # type: ignore[arg-type]


def lost(
    attempt: int = 2, tools: bool = False, restored: bool = False, complete: bool = False, begun: bool = False
) -> str:
    return decide_after_loss(
        attempt=attempt, tools_started=tools, restored=restored, history_complete=complete, history_begun=begun
    ).how


ATTEMPTS = range(2, MAX_ATTEMPTS + 1)
BOTH = (False, True)


def test_a_complete_answer_in_the_agents_history_is_never_asked_for_again() -> None:
    assert {lost(a, t, r, True, b) for a in ATTEMPTS for t in BOTH for r in BOTH for b in BOTH} == {"recall"}


@pytest.mark.parametrize(
    ("tools", "restored", "begun", "how"),
    [
        (False, False, False, "restart"),
        (False, False, True, "restart"),  # it began something, and has forgotten it: nothing of it is known
        (False, True, False, "restart"),
        (False, True, True, "resume"),  # it said something: asked anew it would say it twice, and do what came behind
        (True, False, False, "give up"),
        (True, False, True, "give up"),
        (True, True, False, "resume"),
        (True, True, True, "resume"),
    ],
)
def test_how_a_lost_turn_goes_on_without_proof_of_its_end(tools: bool, restored: bool, begun: bool, how: str) -> None:
    assert {lost(attempt, tools, restored, False, begun) for attempt in ATTEMPTS} == {how}


@pytest.mark.parametrize(("restored", "how"), [(False, "give up"), (True, "resume")])
def test_an_agent_that_hides_its_calls_may_have_started_one_whenever_it_was_prompted(restored: bool, how: str) -> None:
    decision = decide_after_loss(
        attempt=2, tools_started=False, restored=restored, history_complete=False, calls_hidden=True
    )
    assert decision.how == how
    assert restored or decision.reason.startswith("a tool call may have started")


def test_there_are_at_most_three_attempts_and_less_where_the_agent_gets_less() -> None:
    assert MAX_ATTEMPTS == 3
    assert {lost(4, t, r, False, b) for t in BOTH for r in BOTH for b in BOTH} == {"give up"}
    few = decide_after_loss(
        attempt=2, tools_started=False, restored=True, history_complete=False, history_begun=True, max_attempts=1
    )
    assert (few.how, few.reason) == ("give up", "it was lost")


@pytest.mark.parametrize(
    ("death", "earlier", "words"),
    [
        (None, [None, None], "it was lost"),
        ("closed its output", [None, "closed its output"], "it was lost; the last time the agent closed its output"),
        (None, ["overloaded.", None], "it was lost; the time before: overloaded"),
        (
            "closed its output",
            ["busy", "overloaded"],
            "it was lost; the last time the agent closed its output; the time before: overloaded",
        ),
    ],
)
def test_giving_up_names_the_last_reasons_that_are_known(
    death: str | None, earlier: list[str | None], words: str
) -> None:
    assert explain_giving_up("it was lost", death, earlier) == words


def test_what_is_given_up_says_why() -> None:
    for tools, attempt in ((True, 2), (False, 4)):
        given_up = decide_after_loss(attempt=attempt, tools_started=tools, restored=False, history_complete=False)
        assert given_up.how == "give up"
        assert given_up.reason
