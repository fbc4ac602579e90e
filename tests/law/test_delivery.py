"""The life of a part, as the law tells it."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.law import retries
from semel.law.delivery import (
    HORIZON_MS,
    IDEMPOTENT_KINDS,
    IN_LINE,
    MIN_ATTEMPTS,
    STATES,
    TABLE,
    Event,
    PartStepNotAllowed,
    Rules,
    State,
    event_of_not_sent,
    events_of_late_failure,
    events_of_refusal,
    explain_hold,
    resolve_unknown,
    step,
)

HOUR = 3_600_000
IDEMPOTENT = Rules("idempotent", key_life=HOUR)
RECONCILABLE = Rules("reconcilable", absence_proven_after=1000, can_look_up=True)
AT_MOST_ONCE = Rules("at-most-once")


def test_the_table_has_every_state_and_only_known_events() -> None:
    assert set(TABLE) == set(get_args(State)) == set(STATES)
    assert {event for row in TABLE.values() for event in row} == set(get_args(Event))


def test_the_arrows_are_those_of_the_laws() -> None:
    arrows = {(state, done.state) for state, row in TABLE.items() for done in row.values()}
    assert arrows == {
        ("queued", "sending"),
        ("sending", "queued"),
        ("sending", "sent"),
        ("sending", "rejected"),
        ("sending", "unknown"),
        ("unknown", "sent"),
        ("unknown", "queued"),
        ("unknown", "held"),
        ("held", "queued"),
        ("held", "sent"),
        ("held", "dropped"),
        ("rejected", "queued"),
        ("rejected", "dropped"),
    }


def test_nothing_leaves_a_final_state() -> None:
    assert {state for state in STATES if not TABLE[state]} == {"sent", "dropped"}


def test_a_line_moves_on_exactly_when_a_part_leaves_it() -> None:
    for state, row in TABLE.items():
        for event, done in row.items():
            leaves = state in IN_LINE and done.state not in IN_LINE
            assert ("advance" in done.effects) == leaves, (state, event)


def test_people_are_told_exactly_when_a_message_is_held_or_rejected() -> None:
    for state, row in TABLE.items():
        for event, done in row.items():
            assert ("tell" in done.effects) == (done.state in ("held", "rejected")), (state, event)


@pytest.mark.parametrize(
    ("state", "events"),
    [("sent", ()), ("sending", ("found",)), ("unknown", ("found",)), ("held", ("found",))]
    + [(state, None) for state in ("queued", "rejected", "dropped")],
)
def test_what_failed_after_it_was_taken_was_sent(state: State, events: tuple[Event, ...] | None) -> None:
    assert events_of_late_failure(state) == events
    for event in events or ():
        state = step(state, event).state
    assert events is None or state == "sent"


@pytest.mark.parametrize(("state", "is_marked"), [("held", True), ("rejected", False)])
def test_a_resend_joins_the_tail_and_is_marked_if_it_may_have_arrived(state: State, is_marked: bool) -> None:
    done = step(state, "resend")
    assert done.state == "queued" and "join tail" in done.effects and ("mark" in done.effects) == is_marked


@pytest.mark.parametrize("state", [s for s in STATES if s != "held"])
@pytest.mark.parametrize("decision", ["resend", "arrived", "drop"])
def test_people_decide_only_about_what_is_held_or_rejected(state: State, decision: Event) -> None:
    if state == "rejected" and decision != "arrived":
        return
    with pytest.raises(PartStepNotAllowed, match=f"this part is {state}; only a part that is held"):
        step(state, decision)


def test_only_a_person_decides_about_what_was_rejected() -> None:
    assert set(TABLE["rejected"]) == {"resend", "drop"}


def test_only_queued_parts_depart() -> None:
    assert [state for state in STATES if "departs" in TABLE[state]] == ["queued"]


def test_an_idempotent_part_is_repeated_only_inside_four_fifths_of_its_key_life() -> None:
    assert resolve_unknown(IDEMPOTENT, first_attempt_at=0, now=HOUR * 8 // 10 - 1) == "again"
    assert resolve_unknown(IDEMPOTENT, first_attempt_at=0, now=HOUR * 8 // 10) == "hold"
    asked = Rules("idempotent", key_life=HOUR, can_look_up=True)
    assert resolve_unknown(asked, first_attempt_at=0, now=HOUR * 8 // 10) == "look"


def test_a_reconcilable_part_is_looked_for_until_the_horizon_and_then_held() -> None:
    assert resolve_unknown(RECONCILABLE, first_attempt_at=0, now=0) == "look"
    assert resolve_unknown(RECONCILABLE, first_attempt_at=0, now=HORIZON_MS - 1) == "look"
    assert resolve_unknown(RECONCILABLE, first_attempt_at=0, now=HORIZON_MS) == "hold"


def test_an_at_most_once_part_is_held_unless_the_operator_chose_repeats() -> None:
    assert resolve_unknown(AT_MOST_ONCE, first_attempt_at=0, now=0) == "hold"
    assert resolve_unknown(Rules("at-most-once", resend_unknown=True), first_attempt_at=0, now=0) == "repeat"


@pytest.mark.parametrize(
    ("rules", "age", "why"),
    [
        (AT_MOST_ONCE, 0, "the platform neither folds repeats nor tells what it has"),
        (IDEMPOTENT, HOUR, "after 48 min the platform may fold a repeat no more"),
        (Rules("idempotent", key_life=24 * HOUR), 20 * HOUR, "after 19.2 h the platform may fold a repeat no more"),
        (Rules("idempotent"), 0, "sent again, it would be a second message"),
        (RECONCILABLE, HORIZON_MS, "nothing settled this within 72 h"),
    ],
)
def test_a_held_part_says_why_it_is_not_sent_again_by_itself(rules: Rules, age: int, why: str) -> None:
    assert resolve_unknown(rules, first_attempt_at=0, now=age) == "hold"
    assert explain_hold(rules, first_attempt_at=0, now=age) == f"{why}, so it is not sent again by itself"


@pytest.mark.parametrize("rules", [IDEMPOTENT, RECONCILABLE, AT_MOST_ONCE], ids=lambda rules: str(rules.safety))
@pytest.mark.parametrize("kind", sorted(IDEMPOTENT_KINDS))
def test_what_only_makes_something_so_leaves_again_on_every_class(rules: Rules, kind: str) -> None:
    assert resolve_unknown(rules, first_attempt_at=0, now=HORIZON_MS - 1, kind=kind) == "again"
    assert resolve_unknown(rules, first_attempt_at=0, now=HORIZON_MS, kind=kind) == "hold"


def test_a_post_and_a_file_are_not_repeatable() -> None:
    assert {"post", "file"}.isdisjoint(IDEMPOTENT_KINDS)
    assert resolve_unknown(AT_MOST_ONCE, first_attempt_at=0, now=0, kind="file") == "hold"


@given(
    safety=st.sampled_from(["idempotent", "reconcilable", "at-most-once"]),
    key_life=st.integers(0, 10 * HORIZON_MS),
    can_look_up=st.booleans(),
    first=st.integers(0, 10**13),
    age=st.integers(-HOUR, 10 * HORIZON_MS),
)
def test_no_class_repeats_blindly(safety: str, key_life: int, can_look_up: bool, first: int, age: int) -> None:
    rules = Rules(safety, key_life=key_life, can_look_up=can_look_up)  # type: ignore[arg-type]
    found = resolve_unknown(rules, first_attempt_at=first, now=first + age)
    assert found != "repeat"
    if found == "again":
        assert safety == "idempotent" and age < key_life * 0.8
    if found == "look":
        assert safety == "reconcilable" or can_look_up


def test_not_sent_in_doubt_settles_nothing() -> None:
    long_ago = {"attempts": 99, "queued_at": 0, "now": HORIZON_MS * 2}
    assert event_of_not_sent(IDEMPOTENT, may_have_arrived=True, **long_ago) == "silence"


def test_a_part_is_given_up_after_the_horizon_but_not_before_enough_attempts() -> None:
    part = {"may_have_arrived": False, "queued_at": 0}
    assert event_of_not_sent(AT_MOST_ONCE, **part, attempts=10**6, now=HORIZON_MS - 1) == "not sent"
    assert event_of_not_sent(AT_MOST_ONCE, **part, attempts=MIN_ATTEMPTS - 1, now=HORIZON_MS) == "not sent"
    assert event_of_not_sent(AT_MOST_ONCE, **part, attempts=MIN_ATTEMPTS, now=HORIZON_MS) == "gave up"


def test_a_platform_that_asks_to_wait_beyond_the_horizon_said_no() -> None:
    waits = {"may_have_arrived": False, "attempts": 1, "queued_at": 0, "now": 0}
    assert event_of_not_sent(AT_MOST_ONCE, **waits, retry_after=HORIZON_MS - 1) == "not sent"
    assert event_of_not_sent(AT_MOST_ONCE, **waits, retry_after=HORIZON_MS) == "gave up"


def test_a_definite_no_to_a_repeat_says_nothing_about_the_first_attempt() -> None:
    assert events_of_refusal(may_have_arrived=False) == ("refused",)
    state: State = "sending"
    for event in events_of_refusal(may_have_arrived=True):
        state = step(state, event).state
    assert state == "held"


@given(
    attempts=st.integers(1, 10_000),
    age=st.integers(0, 10 * HORIZON_MS),
    jitter=st.floats(0, 1, exclude_max=True),
    wait=st.none() | st.integers(0, HORIZON_MS),
)
def test_a_back_off_never_undercuts_the_platform_and_never_sleeps_an_outage_away(
    attempts: int, age: int, jitter: float, wait: int | None
) -> None:
    delay = retries.retry_delay_ms(attempts, age=age, jitter=jitter, retry_after=wait)
    assert delay >= max(1, wait or 0)
    assert delay <= max(wait or 0, 60_000 if age < HOUR else 600_000)


def test_a_back_off_doubles_from_one_second_to_a_minute() -> None:
    waits = [retries.retry_delay_ms(n, age=0, jitter=0.0) for n in range(1, 9)]
    assert waits == [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]


def test_a_platform_that_cannot_tell_is_asked_less_and_less_often() -> None:
    assert retries.next_look_delay(elapsed=0, absence_proven_after=0) == 1000
    assert retries.next_look_delay(elapsed=0, absence_proven_after=5000) == 5000
    assert retries.next_look_delay(elapsed=60_000, absence_proven_after=0) == 30_000
    assert retries.next_look_delay(elapsed=10 * HOUR, absence_proven_after=0) == 600_000
