"""Examine the agents of sessions: those that are not configured any more, and those whose last turn gave no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from semel.faces.config.load import GatewayConfig
from semel.faces.health.finding import Finding
from semel.faces.transcript import format_timestamp
from semel.ledger.admin.overview import FailingAgent, list_failing_agents
from semel.ledger.engines import open_readonly
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.sql import Tx
from semel.ledger.turns.session_agent import list_missing_agents

T = TypeVar("T")


def describe_missing_agents(config: GatewayConfig) -> list[str]:
    """Return a sentence or two for each agent that sessions have and that is not configured any more.

    The list is empty if there is no ledger, or none that can be read: other checks say so.
    """
    agents = config.gateway.configured_agents
    return [missing.describe() for missing in _read_ledger(config, lambda tx: list_missing_agents(tx, agents))]


def examine_session_agents(config: GatewayConfig) -> list[Finding]:
    """Return a finding for each agent whose last turn gave no answer, and for each that is not configured any more."""
    failing_agents = _read_ledger(config, list_failing_agents)
    findings = [_explain_failing(failing) for failing in failing_agents if failing.agent in config.gateway.agents]
    remedy = "if the agent was meant to stay, add its section to the configuration again"
    return findings + [Finding("sessions", "warning", text, remedy) for text in describe_missing_agents(config)]


def _explain_failing(failing: FailingAgent) -> Finding:
    """Return the finding about an agent whose last turn gave no answer: to open a session does not try its key."""
    text = f"its last turn ({failing.session}, {format_timestamp(failing.at)}) {failing.problem}"
    step = f"remove the cause, then try it: semel agents check {failing.agent} --prompt 'Say hello.'"
    return Finding(f"agent {failing.agent}", "warning", text, step)


def _read_ledger(config: GatewayConfig, read: Callable[[Tx], list[T]]) -> list[T]:
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
