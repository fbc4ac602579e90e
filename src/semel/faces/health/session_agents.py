"""Examine the agents of sessions: those that are not configured any more, and those whose last turn gave no answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from semel.faces.config.load import GatewayConfig
from semel.faces.health.finding import Finding
from semel.faces.transcript import format_timestamp
from semel.ledger.admin.overview import FailingAgent, list_agent_notices, list_failing_agents
from semel.ledger.engines import open_readonly
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.sql import Tx
from semel.ledger.turns.session_agent import list_missing_agents
from semel.text.json_types import Json

T = TypeVar("T")


def describe_missing_agents(config: GatewayConfig) -> list[str]:
    """Return a sentence or two for each agent that sessions have and that is not configured any more.

    The list is empty if there is no ledger, or none that can be read: other checks say so.
    """
    agents = config.gateway.configured_agents
    return [missing.describe() for missing in read_ledger(config, lambda tx: list_missing_agents(tx, agents))]


def examine_session_agents(config: GatewayConfig) -> list[Finding]:
    """Return a finding for each agent that is not configured any more."""
    remedy = "if the agent was meant to stay, add its section to the configuration again"
    return [Finding("sessions", "warning", text, remedy) for text in describe_missing_agents(config)]


def weigh_last_turns(findings: Sequence[Finding], config: GatewayConfig, is_running: bool) -> list[Finding]:
    """Return the findings about the agents, with a warning where the last turn of an agent gave no answer.

    To open a session does not try an agent's key, so a finding "ok" becomes that warning. `is_running`: whether a
    gateway runs; a turn that has shown nothing for long counts only then.
    """
    problems = {failing.agent: _describe_failing(failing) for failing in read_ledger(config, list_failing_agents)}
    if is_running:
        notices = read_ledger(config, list_agent_notices)
        problems |= {notice["silent"]: _describe_silent(notice) for notice in notices if "silent" in notice}
    weighed = list(findings)
    for agent in config.gateway.agents.keys() & problems.keys():
        subject, problem = f"agent {agent}", problems[agent]
        step = f"remove the cause, then try it: semel agents check {agent} --prompt 'Say hello.'"
        opened = next((at for at, f in enumerate(weighed) if (f.subject, f.level) == (subject, "ok")), None)
        if opened is None:
            weighed.append(Finding(subject, "warning", problem, step))
        else:
            weighed[opened] = Finding(subject, "warning", f"{weighed[opened].text}; but {problem}", step)
    return weighed


def _describe_failing(failing: FailingAgent) -> str:
    return f"its last turn ({failing.session}, {format_timestamp(failing.at)}) {failing.problem}"


def _describe_silent(notice: Json) -> str:
    began = format_timestamp(notice["at"])
    return f"its turn ({notice['session']}, since {began}) has shown nothing yet: its key may be refused"


def read_ledger(config: GatewayConfig, read: Callable[[Tx], list[T]]) -> list[T]:
    """Return what `read` finds in the ledger; [] if there is none, or none that can be read."""
    try:
        store = open_readonly(config.gateway.ledger)
    except LedgerError:
        return []
    try:
        return store.read_sync(read)
    except LedgerError:
        return []
    finally:
        store.close()
