"""What the running gateway says of its agents, beside what a configuration file and this shell say of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from semel.faces.client import AsyncClient, NoGateway, RequestRefused
from semel.faces.config import ConfigError, locate_running
from semel.faces.transcript import format_timestamp
from semel.text.json_types import Json
from semel.tools.address import find_running_config, find_waiting

if TYPE_CHECKING:
    from semel.faces.agent_check import AgentCheck

UNKNOWN = "the running gateway does not know it yet"


@dataclass(frozen=True)
class GatewayAgents:
    """What the running gateway says of its agents in /v1/status.

    `names`: their names. `checks`: what it found when it tried them, by name. `live`: those that a session uses now.
    `failing`: those whose last turn gave no answer, which the ledger says.
    """

    names: Collection[str]
    checks: Mapping[str, Json]
    live: Collection[str]
    failing: Collection[str] = ()

    @classmethod
    def read(cls, status: Json) -> GatewayAgents:
        return cls(status["configured"], status.get("checks") or {}, {live["agent"] for live in status["agents"]})

    def describe_use(self, name: str) -> str:
        """Say that the gateway uses an agent, or could use it when it tried it; "" if it is not known to.

        To try an agent is to open a session, which does not try its key.
        """
        if name in self.failing:
            return ""
        check = self.checks.get(name)
        if check is not None and check["level"] != "broken":
            return f"the running gateway could use it at {format_timestamp(check['at'])}"
        return "a session of the running gateway uses it" if check is None and name in self.live else ""


async def ask_gateway_agents(config_path: Path | None, data_dir: Path | None) -> GatewayAgents | None:
    """Return what the running gateway says of its agents; None if none runs, or if none can be asked."""
    try:
        async with AsyncClient(locate_running(config_path, data_dir)) as client:
            return GatewayAgents.read(await client.get("/v1/status"))
    except (ConfigError, NoGateway, RequestRefused):
        return None


def add_failing_agents(
    gateway: GatewayAgents | None, config_path: Path | None, data_dir: Path | None
) -> GatewayAgents | None:
    """Return what the gateway says, with the agents whose last turn gave no answer. Raises ConfigError."""
    if gateway is None:
        return None
    from semel.faces.config.load import load_config  # only now: they import all settings
    from semel.faces.health.session_agents import read_ledger
    from semel.ledger.admin.overview import list_failing_agents

    failing = read_ledger(load_config(config_path, data_dir), list_failing_agents)
    return replace(gateway, failing={agent.agent for agent in failing})


def explain_difference(check: AgentCheck, gateway: GatewayAgents | None) -> str:
    """Say why the running gateway can use an agent that cannot be used from this shell; "" if that is not known.

    If the agent failed at a prompt, nothing is known: a session could be opened here, too, and the gateway tried no
    more than that.
    """
    used = "" if gateway is None or check.answer_s is not None else gateway.describe_use(check.name)
    return f"{used}: it has another PATH or other variables than this shell, such as an API key" if used else ""


def explain_unknown_agents(
    config_path: Path | None, data_dir: Path | None, file: Path, agents: Iterable[str], gateway: GatewayAgents | None
) -> dict[str, str]:
    """Return, for each of these agents that the running gateway does not know, why that is and what to do.

    `file`: the configuration file that names them. `gateway`: None if none runs; then the result is empty.
    """
    if gateway is None:
        return {}
    try:
        data = locate_running(config_path, data_dir)
        read = find_running_config(data)
    except (ConfigError, NoGateway):  # it has just ended
        return {}
    if is_other_file(read, file):
        reason = f"{UNKNOWN}: it has read {read}, and not {file}"
    else:
        from semel.faces.service.installation import advise_restart  # only now: it imports all settings

        reason = f"{UNKNOWN}: {advise_restart()}"
    return dict.fromkeys(list_unknown_agents(agents, gateway.names, data), reason)


def list_unknown_agents(agents: Iterable[str], known: Collection[str], data_dir: Path) -> list[str]:
    """Return those of these agents that are not in `known`, the agents of the gateway that answered.

    The result is empty if the gateway of this data directory waits, and another one of its cluster has answered for it.
    """
    return [] if find_waiting(data_dir) is not None else [name for name in agents if name not in known]


def is_other_file(read: Path | None, file: Path) -> bool:
    """Whether the gateway has read another configuration file than this one. False if it has read none."""
    return read is not None and read.resolve() != file.resolve()
