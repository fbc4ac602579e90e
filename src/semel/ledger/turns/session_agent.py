"""The agent of a session, and what happens when it is not configured any more.

A session keeps the name of its agent. If the configuration has no agent of that name now, the session gets the agent
that a new session with its key would get. This happens in the transaction that begins its next turn, so a crash leaves
the session with either agent, and its people are told once. The new agent has no memory of the session, so its first
prompt contains the conversation, as after any lost memory (`read_conversation`, `read_past_turns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.law import identity
from semel.law.turn import MAX_ATTEMPTS
from semel.ledger.delivery import claims
from semel.ledger.storage.rows import Row, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

KIND = "agent.replaced"
"""The kind of the notice that a session has another agent now."""


MAX_NAMED_SESSIONS = 5
NEWEST_SESSIONS = 5_000


class SessionAgent(Row):
    """A session and the name of its agent."""

    key: str
    agent: str


@dataclass(frozen=True)
class MissingAgent:
    """An agent that is not configured any more, though sessions have it.

    `successor`: the agent that these sessions get at their next message; None if they get none. `sessions`: the number
    of these sessions. `newest`: the keys of the newest of them.
    """

    agent: str
    successor: str | None
    sessions: int
    newest: tuple[str, ...]

    def describe(self) -> str:
        keys = ", ".join(self.newest) + (", ..." if self.sessions > len(self.newest) else "")
        belong, go = ("session belongs", "It goes") if self.sessions == 1 else ("sessions belong", "Each goes")
        text = f"{self.sessions} {belong} to the agent {self.agent!r}, which is not configured any more ({keys}). "
        if self.successor is None:
            return f"{text}Nobody answers there until [agents.{self.agent}] is added to the configuration"
        return (
            f"{text}{go} on with {self.successor!r} at its next message; {self.successor!r} is given the conversation "
            "so far"
        )


@dataclass(frozen=True)
class ConfiguredAgents:
    """The configured agents.

    `attempts`: for each agent, the maximum number of attempts per root. `default`: the agent for a session whose own
    agent is missing and whose key names no configured agent; "" if such a session gets no agent.
    """

    attempts: Mapping[str, int] = field(default_factory=dict)
    default: str = ""

    def is_missing(self, agent: str) -> bool:
        return bool(self.attempts) and agent not in self.attempts

    def find_successor(self, key: str, agent: str) -> str | None:
        """Return the agent that a session gets at its next turn; None if it keeps its own."""
        if not self.is_missing(agent) or not self.default:
            return None
        return identity.choose_agent(key, self.attempts, self.default)

    def explain_missing(self, key: str, agent: str) -> str | None:
        """Say what becomes of a session whose agent is not configured any more; None if it is configured."""
        if not self.is_missing(agent):
            return None
        if (successor := self.find_successor(key, agent)) is not None:
            return f"the agent {agent!r} is not configured any more; {successor!r} answers the next message here"
        return (
            f"this session belongs to the agent {agent!r}, which is not configured any more: "
            f"add [agents.{agent}] to the configuration, or use another session"
        )

    def max_attempts(self, agent: str) -> int:
        """Return the maximum number of attempts per root that this agent may have."""
        return self.attempts.get(agent, MAX_ATTEMPTS)


ANY_AGENT = ConfiguredAgents()
"""For callers that know no configuration: every session keeps its agent."""


def replace_missing_agent(tx: Tx, row: SessionRow, agents: ConfiguredAgents) -> SessionRow:
    """Replace the session's agent if it is not configured any more, and tell the session's people.

    Return the session's row after that.
    """
    successor = agents.find_successor(row.key, row.agent)
    if successor is None:
        return row
    tx.run("session_set_agent", id=row.id, agent=successor)
    history = ", and is given the conversation so far" if row.memory is not None else ""
    text = f"The agent {row.agent!r} is not configured any more. {successor!r} answers here from now on{history}."
    claims.add_home_notice(tx, row, text, turn=None, kind=KIND, tell=False)
    entries.touch_session(tx, row.id)
    return tx.get(SessionRow, "session_by_id", id=row.id)


def record_offers(tx: Tx, session: int, chapter: int, memory: str | None, about: entries.Body) -> None:
    """Record what an agent that was started without a turn offers in its session.

    `memory`: the agent's own id of a conversation that it has just begun in this chapter, so that the first turn goes
    on with it; None leaves the session's memory as it is.
    """
    if memory is not None:
        tx.run("session_begin_memory", id=session, chapter=chapter, memory=memory)
    entries.set_about(tx, session, about)


def list_missing_agents(tx: Tx, agents: ConfiguredAgents) -> list[MissingAgent]:
    """Return the agents that sessions have and that are not configured any more, with these sessions.

    Only the newest NEWEST_SESSIONS sessions are looked at, without archived ones, so that the cost is bounded (Law 11).
    """
    groups: dict[tuple[str, str | None], list[str]] = {}
    for row in tx.all(SessionAgent, "session_agents", limit=NEWEST_SESSIONS):
        if agents.is_missing(row.agent):
            groups.setdefault((row.agent, agents.find_successor(row.key, row.agent)), []).append(row.key)
    return [
        MissingAgent(agent, successor, len(keys), tuple(keys[:MAX_NAMED_SESSIONS]))
        for (agent, successor), keys in groups.items()
    ]
