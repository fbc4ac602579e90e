"""Counts of turns and of agents' errors since the gateway started, for the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from semel.law import turn as law

AGENT_ERRORS = ("start", "lost", "answer")  # the steps at which an agent may fail, as the metric's label


class TurnCounts:
    """How many turns have ended, by (agent, outcome), and how many attempts failed, by (agent, step)."""

    def __init__(self, agents: Collection[str]) -> None:
        # A series that begins at 0 shows its first increase to Prometheus; one that begins at 1 does not.
        self._ended = Counter({(agent, str(outcome)): 0 for agent in agents for outcome in law.FINISHED})
        self._errors = Counter({(agent, error): 0 for agent in agents for error in AGENT_ERRORS})

    def note_end(self, agent: str, outcome: str) -> None:
        """Count a turn that has ended."""
        self._ended[agent, outcome] += 1

    def note_error(self, agent: str, step: str) -> None:
        """Count an attempt that failed. `step`: one of AGENT_ERRORS."""
        self._errors[agent, step] += 1

    def metrics(self) -> dict[str, float]:
        """Return the metrics of turns for Prometheus, by name."""
        return {
            f'semel_turns_total{{agent="{agent}",outcome="{outcome}"}}': float(count)
            for (agent, outcome), count in self._ended.items()
        } | {
            f'semel_agent_errors_total{{agent="{agent}",error="{error}"}}': float(count)
            for (agent, error), count in self._errors.items()
        }
