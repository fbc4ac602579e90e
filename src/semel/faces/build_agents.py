"""Build agents, and the places of their background jobs, from a configuration. Nothing is started."""

from __future__ import annotations

from semel.agents.acp import AcpAgent
from semel.agents.acp.environment import build_environment
from semel.agents.model import ModelAgent
from semel.faces.config.load import GatewayConfig
from semel.gateway.ports import AgentError, Launch
from semel.gateway.settings import AgentSettings
from semel.tools.exec.background import JobEnvironment
from semel.tools.in_process_tools import InProcessTools


def build_agent(settings: AgentSettings, config: GatewayConfig) -> AcpAgent | ModelAgent:
    """Build an agent from its settings. Nothing is started."""
    if settings.kind == "model":
        return ModelAgent(settings, _make_inside_tools, hidden=config.secrets)
    return build_acp_agent(settings, config)


def build_acp_agent(settings: AgentSettings, config: GatewayConfig) -> AcpAgent:
    """Build an agent that is a process of its own. The demo agent is one, too."""
    return AcpAgent(
        settings.name,
        settings.command,
        settings.cwd,
        settings.env,
        permissions=settings.permissions,
        hidden=config.secrets,
        trace=settings.trace,
        mode=settings.mode,
        model=settings.model,
        mcp_transport=settings.mcp_transport,
    )


def find_program_problem(settings: AgentSettings, config: GatewayConfig) -> str | None:
    """Return why an agent's program cannot be executed. `None` if it can, or if the agent is a model without one."""
    if settings.kind == "model":
        return None
    try:
        build_acp_agent(settings, config).check_command()
    except AgentError as error:
        return str(error)
    return None


def build_workplaces(config: GatewayConfig) -> dict[str, JobEnvironment]:
    """Map each agent's name to the directory and environment of its background jobs: those of the agent itself."""
    return {name: build_workplace(agent, config) for name, agent in config.gateway.agents.items()}


def build_workplace(agent: AgentSettings, config: GatewayConfig) -> JobEnvironment:
    """Return the directory and environment of an agent's background jobs."""
    return JobEnvironment(agent.cwd, build_environment(agent.command, agent.env, hidden=config.secrets))


def _make_inside_tools(launch: Launch) -> InProcessTools | None:
    """Make the tools of an agent that runs inside the gateway; `None` for an agent that is a process of its own."""
    return InProcessTools(launch.inside.call, launch.token) if launch.inside is not None else None
