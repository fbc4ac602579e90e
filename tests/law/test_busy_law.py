"""What becomes of a message that comes while its session is busy."""

from __future__ import annotations

import pytest

from semel.law.busy import MODES, act, for_event


@pytest.mark.parametrize("mode", MODES)
def test_where_no_turn_runs_every_mode_only_wakes(mode: str) -> None:
    assert act(mode, running=False) == "wake"  # type: ignore[arg-type]


def test_only_steer_and_interrupt_touch_a_running_turn() -> None:
    assert {mode: act(mode, running=True) for mode in MODES} == {
        "queue": "wake", "collect": "wake", "steer": "steer", "interrupt": "interrupt",
    }  # fmt: skip


def test_what_happened_never_interrupts_a_person() -> None:
    assert for_event("interrupt") == "queue"
    assert for_event("steer") == "steer"
