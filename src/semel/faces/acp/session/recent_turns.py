"""Which turn a person means who cancels in an editor while no prompt of the editor's is open.

When a cancel comes, the turn that it is for may have ended, and another person's turn may run. Nobody reacts at once to
a turn that they see, so a cancel means the turn that ran a moment ago (REACTION_S). That turn is named to the gateway:
if it has ended, nothing is stopped.
"""

from __future__ import annotations

REACTION_S = 0.5  # nobody sees a turn and cancels it within this time
LATE_CANCEL_REMARK = "The turn that runs now began just before you cancelled, so it goes on. To stop it, cancel again."


class RecentTurns:
    """The turn that runs in a session, the one before it, and when that changed."""

    def __init__(self) -> None:
        self._turn: int | None = None
        self._before: int | None = None
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<RecentTurns {self._before}, now {self._turn}>"

    def note_running(self, turn: int | None, now: float) -> None:
        """Note which turn runs; None: none. `now`: in seconds, on any clock that never goes back."""
        if turn != self._turn:
            self._before, self._turn, self._since = self._turn, turn, now

    def find_turn_to_cancel(self, now: float) -> int | None:
        """Return the turn that is meant by a cancel that comes now; None: none."""
        return self._turn if now - self._since >= REACTION_S else self._before
