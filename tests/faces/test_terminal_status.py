"""The lines around a conversation in the terminal: what is known of its agent, and the keys that work."""

from __future__ import annotations

from typing import Any

import pytest

from semel.faces.terminal.status_line import format_activity, format_session_line
from semel.faces.view import SessionView

MODES = {"currentModeId": "plan", "availableModes": [{"id": "plan", "name": "Plan only"}]}
MODELS = {"currentModelId": "a", "availableModels": [{"modelId": "a", "name": "Sonnet"}, {"modelId": "b"}]}
COST = {"amount": 0.4312, "currency": "USD"}


def view(**session: Any) -> SessionView:
    usage = {"id": 7, "born": 7, "kind": "usage", "used": 48213, "size": 200_000, "cost": COST}
    state = {"key": "main", "agent": "demo", "state": "idle", "waiting": 0, "modes": MODES, "models": MODELS}
    return SessionView(session={**state, **session}, items={7: usage})


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (100, " The parser of dates  demo  Sonnet  Plan only  48.2K (24 %)  $0.43"),
        (60, " The parser o…  demo  Sonnet  48.2K (24 %)  $0.43"),
        (36, " The parser of dat…  demo"),
    ],
)
def test_facts_that_do_not_fit_are_left_out_whole(width: int, shown: str) -> None:
    line = format_session_line("main", view(title="The parser of dates"), "connected", width)
    assert line.cell_len <= width
    assert line.plain.removesuffix("● live").rstrip() == shown
    assert line.plain.endswith("● live")


def test_a_session_line_shows_what_was_chosen_and_how_the_connection_is() -> None:
    line = format_session_line("main", view(models={**MODELS, "currentModelId": "b"}, mode="plan"), "away", 90).plain
    assert line.startswith(" main  demo  b  Plan only") and line.endswith("○ away")
    assert format_session_line("new", SessionView(), "connecting", 40).plain.split() == ["new", "○", "connecting"]
    option = {"currentValue": "x", "options": [{"value": "x", "name": "Brisk"}]}
    assert "  Brisk  " in format_session_line("main", view(models=option), "connected", 90).plain
    alone = format_session_line("main", view(unattended_modes=["plan"]), "connected", 90).plain
    assert "  asks nobody  " in alone
    names = format_session_line("main", view(agent="a\x1b[2Jb"), "connected", 90).plain
    assert "a␛[2Jb" in names


def test_the_activity_says_what_is_waited_for() -> None:
    assert format_activity(view(), "connected", 0).plain == ""
    assert format_activity(view(state="running", waiting=2), "connected", 5).plain == "◐ working  2 waiting"
    assert "nothing new for 40 s" in format_activity(view(state="running"), "connected", 40).plain
    assert "semel up" in format_activity(view(state="running"), "away", 40).plain
