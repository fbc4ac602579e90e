"""Find the sessions whose agent is not configured any more, and say what becomes of them."""

from __future__ import annotations

from semel.faces.config.load import GatewayConfig
from semel.faces.health.finding import Finding
from semel.ledger.engines import open_readonly
from semel.ledger.storage.errors import LedgerError
from semel.ledger.turns.session_agent import list_missing_agents


def describe_missing_agents(config: GatewayConfig) -> list[str]:
    """Return a sentence or two for each agent that sessions have and that is not configured any more.

    The list is empty if there is no ledger, or none that can be read: other checks say so.
    """
    try:
        store = open_readonly(config.gateway.ledger)
    except LedgerError:
        return []
    try:
        return [
            missing.describe() for missing in store.read_sync(list_missing_agents, config.gateway.configured_agents)
        ]
    except LedgerError:
        return []
    finally:
        store.close()


def examine_session_agents(config: GatewayConfig) -> list[Finding]:
    """Return a finding for each agent that sessions have and that is not configured any more."""
    remedy = "if the agent was meant to stay, add its section to the configuration again"
    return [Finding("sessions", "warning", text, remedy) for text in describe_missing_agents(config)]
