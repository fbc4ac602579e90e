"""What becomes of a message that comes while its session is busy."""

from __future__ import annotations

import pytest

from semel.law.wake import MODES, decide_action, mode_for_event


@pytest.mark.parametrize("mode", MODES)
def test_where_no_turn_runs_every_mode_only_wakes(mode: str) -> None:
    assert decide_action(mode, running=False) == "wake"  # type: ignore[arg-type]


def test_only_steer_and_interrupt_touch_a_running_turn() -> None:
    assert {mode: decide_action(mode, running=True) for mode in MODES} == {
        "queue": "wake", "collect": "wake", "steer": "steer", "interrupt": "interrupt",
    }  # fmt: skip


def test_what_happened_never_interrupts_a_person() -> None:
    assert mode_for_event("interrupt") == "queue"
    assert mode_for_event("steer") == "steer"
