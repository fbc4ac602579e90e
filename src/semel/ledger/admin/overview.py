"""An overview for operators: the sessions that need a person, and the parts that wait to be sent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass

from semel.ledger.admin import needs
from semel.ledger.admin.needs import NEWEST_TURNS
from semel.ledger.admin.overdue import list_overdue
from semel.ledger.delivery import parts
from semel.ledger.storage.rows import RestoreRow, Row, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import agent_notices, seats, session_agent
from semel.ledger.turns.finish_turn import EMPTY_TURN_NOTICE, find_empty_turn_notice
from semel.ledger.turns.session_agent import ConfiguredAgents
from semel.text.json_types import Json


class RunningSession(Row):
    """A session whose turn runs. `at`: when the turn began, in ms."""

    key: str
    title: str | None
    agent: str
    turn: int
    at: int


class PutOffSession(Row):
    """A session whose turn failed and is tried again. `at`: when, in ms. `attempt`: the number of the failed one."""

    key: str
    title: str | None
    turn: int
    at: int
    attempt: int
    error: str | None


class AgentTurn(TurnRow):
    """A turn of the agent `agent`. `key`: its session's."""

    agent: str
    key: str


@dataclass(frozen=True)
class FailingAgent:
    """An agent whose last turn failed or ended without a word. `problem`: a clause. `at`: when it ended, in ms."""

    agent: str
    session: str
    problem: str
    at: int


def read_overview(tx: Tx, agents: ConfiguredAgents, channels: Collection[str] | None) -> Json:
    """Return {"attention": the sessions that need someone, "parts": the numbers of unfinished parts by state}.

    Also "put_off" (`list_put_off`), "delayed" (`parts.list_delayed`), "rejected" (`parts.count_rejected`),
    "missing_agents" (`list_missing_agents`), "missing_channels" (`list_missing_channels`) and "overdue": the firings
    that no gateway ran in time (`OverdueFiring`). `channels`: the configured ones, or None if they are unknown.
    """
    return {
        "attention": needs.list_attention(tx),
        "put_off": list_put_off(tx),
        "missing_agents": list_missing_agents(tx, agents),
        "missing_channels": list_missing_channels(tx, channels),
        "parts": parts.count_backlog(tx),
        "delayed": parts.list_delayed(tx, channels),
        "overdue": [asdict(firing) for firing in list_overdue(tx)],
        "rejected": parts.count_rejected(tx),
    }


def list_missing_agents(tx: Tx, agents: ConfiguredAgents) -> list[Json]:
    """Return the agents that are not configured any more: {"agent", "successor", "sessions", "newest", "text"}."""
    return [asdict(missing) | {"text": missing.describe()} for missing in session_agent.list_missing_agents(tx, agents)]


def list_missing_gateways(tx: Tx, living: Collection[str], moving: Collection[str]) -> list[Json]:
    """Return the gateways that are gone and that sessions wait for: {"gateway", "sessions", "newest", "text"}.

    `living`: the names of those that live. `moving`: the agents whose sessions go on at another one.
    """
    return [
        asdict(missing) | {"text": missing.describe()} for missing in seats.list_missing_gateways(tx, living, moving)
    ]


def list_failing_agents(tx: Tx) -> list[FailingAgent]:
    """Return the agents whose last turn, in whichever session, gave no answer. Turns that were stopped do not count."""
    return [
        FailingAgent(turn.agent, turn.key, problem, turn.ended or turn.started)
        for turn in _list_last_turns(tx)
        if (problem := _find_turn_problem(tx, turn)) is not None
    ]


def list_last_answers(tx: Tx) -> dict[str, int]:
    """Return when the last turn of each agent ended, in ms, by its name, if that turn gave an answer."""
    turns = _list_last_turns(tx)
    return {turn.agent: turn.ended for turn in turns if turn.ended is not None and not _find_turn_problem(tx, turn)}


def _list_last_turns(tx: Tx) -> list[AgentTurn]:
    restore = tx.one(RestoreRow, "restore_last")
    restored_at = -1 if restore is None else restore.at
    return tx.all(AgentTurn, "agents_last_turns", newest=NEWEST_TURNS, restored=restored_at)


def _find_turn_problem(tx: Tx, turn: TurnRow) -> str | None:
    if turn.state == "failed":
        return f"failed: {turn.error}" if turn.error else "failed"
    notice = find_empty_turn_notice(tx, turn)
    return None if notice is None else notice.replace(EMPTY_TURN_NOTICE, "ended without a word.", 1)


def list_missing_channels(tx: Tx, channels: Collection[str] | None) -> list[Json]:
    """Return the channels that are not configured any more though parts wait: {"channel", "parts", "text"}."""
    return [asdict(missing) | {"text": missing.describe()} for missing in parts.list_missing_channels(tx, channels)]


def list_agent_notices(tx: Tx) -> list[Json]:
    """Return the running sessions whose agent says something of itself, and nothing else since; or nothing for long.

    Each is {"session", "title"?, "turn", "at": since when the turn runs, "says", "said_at"?}, or has the "silent" agent
    instead of what it says. Times are in ms.
    """
    found: list[Json] = []
    for row in tx.all(RunningSession, "sessions_running"):
        notice = agent_notices.find_current_notice(tx, row.turn)
        if notice is not None:
            found.append(_describe_session(row, row.turn, row.at, says=notice.text, said_at=notice.at))
        elif agent_notices.is_silent(tx, row.turn, row.at):
            found.append(_describe_session(row, row.turn, row.at, silent=row.agent))
    return found


def list_put_off(tx: Tx) -> list[Json]:
    """Return the sessions whose turn failed and is tried again by itself.

    Each is {"session", "title"?, "turn", "at": when it is tried again, in ms, "attempt": its number then, "error"?}.
    """
    return [
        _describe_session(row, row.turn, row.at, attempt=row.attempt + 1, error=row.error)
        for row in tx.all(PutOffSession, "sessions_put_off")
    ]


def _describe_session(row: RunningSession | PutOffSession, turn: int, at: int, **more: object) -> Json:
    fields = {"session": row.key, "title": row.title, "turn": f"t{turn}", "at": at, **more}
    return {name: value for name, value in fields.items() if value is not None}
