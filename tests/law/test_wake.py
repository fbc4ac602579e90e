"""Which events wake, and when a wake is due (Law 2)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.law.wake import NO_PAUSE, Wake, WakeDelay, next_wake, time_until_due, wakes

PAUSE = WakeDelay(debounce=2_000, max_wait=10_000)
pauses = st.builds(WakeDelay, st.integers(0, 60_000), st.integers(0, 600_000))


def test_progress_does_not_wake_and_a_completion_does() -> None:
    assert not wakes("exec.started")
    assert wakes("exec.finished")
    assert wakes("message")


def test_what_a_program_sends_waits_unless_the_session_allows_it() -> None:
    assert not wakes("message", automatic=True)
    assert wakes("message", automatic=True, allowed=True)
    assert not wakes("reaction", automatic=True, allowed=True)


def test_a_debounced_wake_moves_on_with_each_event_but_not_past_the_longest_wait() -> None:
    wake = next_wake(0, None, PAUSE)
    assert wake == Wake(2_000, 0)
    assert (wake := next_wake(1_500, wake, PAUSE)) == Wake(3_500, 0)
    assert next_wake(9_000, wake, PAUSE) == Wake(3_500, 0)  # it is due already: nothing holds it back any more
    assert next_wake(3_000, Wake(9_900, 0), PAUSE) == Wake(5_000, 0)
    assert next_wake(9_500, Wake(9_900, 0), PAUSE) == Wake(10_000, 0)


def test_something_urgent_makes_a_waiting_wake_due_at_once() -> None:
    assert next_wake(1_000, Wake(2_000, 0), NO_PAUSE) == Wake(1_000, 0)
    assert next_wake(1_000, Wake(500, 0), PAUSE) == Wake(500, 0)


def test_a_clock_that_was_set_back_holds_no_wake() -> None:
    assert time_until_due(1_000, Wake(3_000, 500)) == 2_000
    assert time_until_due(400, Wake(3_000, 500)) == 0


@given(st.lists(st.tuples(st.integers(0, 20_000), pauses), min_size=1, max_size=30))
def test_a_wake_is_never_lost_and_never_later_than_its_longest_wait(steps: list[tuple[int, WakeDelay]]) -> None:
    now, wake = 0, None
    longest = 0
    for gap, pause in steps:
        now += gap
        if wake is not None and wake.due <= now:
            wake, longest = None, 0  # a turn began
        wake = next_wake(now, wake, pause)
        longest = max(longest, pause.debounce, pause.max_wait)
        assert wake.since <= now
        assert wake.due <= wake.since + longest or wake.due <= now + pause.debounce
        assert time_until_due(now, wake) >= 0
