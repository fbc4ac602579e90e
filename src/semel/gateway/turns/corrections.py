"""Texts that were held back: the agent is asked once to correct them, else people are told (Laws 5, 12)."""

from __future__ import annotations

from collections.abc import Sequence

from semel.gateway.ports import Answered
from semel.ledger.delivery.cutting import is_local
from semel.ledger.turns import show
from semel.text.message_markup import Problem


class Corrections:
    """The corrections of one turn. `asked`: an earlier attempt of its root was already asked to correct a text."""

    def __init__(self, asked: bool) -> None:
        self.asked = asked
        self._reasons: list[str] = []  # given to the agent

    def are_due(self, end: Answered, problems: Sequence[Problem]) -> bool:
        """Whether the agent is to be asked now that it ended its turn."""
        return bool(problems) and not self.asked and end.stop in ("end_turn", "max_tokens")

    def ask(self, problems: Sequence[Problem]) -> None:
        """Note that the agent is asked now, and for what reasons."""
        self.asked = True
        self._reasons = [problem.reason for problem in problems]

    def notice(self, problems: Sequence[Problem], home: str | None) -> show.Notice | None:
        """The notice for a chat about texts still held back; None if there are none, or no chat is the home."""
        reasons = [problem.reason for problem in problems] or self._reasons
        if not reasons or home is None or is_local(home):
            return None
        return show.Notice(f"Something the agent wrote was held back: {'; '.join(reasons)}.", "turn.held")
