"""The lines around a conversation in the terminal: what is known of its agent, and the keys that work."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from rich.cells import cell_len

from semel.faces.terminal.link import State
from semel.faces.terminal.rows import format_time
from semel.faces.terminal.status_line import format_activity, format_session_line
from semel.faces.view import SessionView

MODES = {"currentModeId": "plan", "availableModes": [{"id": "plan", "name": "Plan only"}]}
MODELS = {"currentModelId": "a", "availableModels": [{"modelId": "a", "name": "Sonnet"}, {"modelId": "b"}]}
USAGE = {"kind": "usage", "used": 48213, "size": 200_000, "cost": {"amount": 0.4312, "currency": "USD"}}


def view(**session: Any) -> SessionView:
    state = {"key": "main", "agent": "demo", "state": "idle", "waiting": 0, "modes": MODES, "models": MODELS}
    return SessionView(session={**state, **session})


def line_of(view: SessionView, width: int = 90, state: State = "connected") -> str:
    return format_session_line("main", view.session, USAGE, state, width).plain


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (100, " The parser of dates  demo  Sonnet  Plan only  48.2K (24 %)  $0.43"),
        (60, " The parser o…  demo  Sonnet  48.2K (24 %)  $0.43"),
        (36, " The parser of dat…  demo"),
    ],
)
def test_facts_that_do_not_fit_are_left_out_whole(width: int, shown: str) -> None:
    line = line_of(view(title="The parser of dates"), width)
    assert cell_len(line) <= width
    assert line.removesuffix("● live").rstrip() == shown
    assert line.endswith("● live")


def test_a_session_line_shows_what_was_chosen_and_how_the_connection_is() -> None:
    line = line_of(view(models={**MODELS, "currentModelId": "b"}, mode="plan"), state="away")
    assert line.startswith(" main  demo  b  Plan only") and line.endswith("○ away")
    option = {"currentValue": "x", "options": [{"value": "x", "name": "Brisk"}]}
    assert "  Brisk  " in line_of(view(models=option))
    assert "  asks nobody  " in line_of(view(unattended_modes=["plan"]))
    assert "a␛[2Jb" in line_of(view(agent="a\x1b[2Jb"))
    new = format_session_line("new", {}, {}, "connecting", 40)
    assert new.plain.split() == ["new", "○", "connecting"]


def test_the_activity_says_what_is_waited_for() -> None:
    assert format_activity(view(), "connected", 0).plain == ""
    assert format_activity(view(state="running", waiting=2), "connected", 5).plain == "◐ working  2 waiting"
    assert "nothing new for 40 s" in format_activity(view(state="running"), "connected", 40).plain
    assert "semel up" in format_activity(view(state="running"), "away", 40).plain


def test_a_time_has_its_day_if_that_is_another_one() -> None:
    now, before, long_ago = (
        datetime(*numbers).astimezone()
        for numbers in ((2026, 11, 27, 14, 5), (2026, 11, 26, 23, 59), (2025, 1, 2, 3, 4))
    )
    texts = [format_time(int(at.timestamp() * 1000), now) for at in (now, before, long_ago)]
    assert texts == ["14:05", "26 Nov 23:59", "02 Jan 2025 03:04"]
    assert format_time(10**18, now) == ""
