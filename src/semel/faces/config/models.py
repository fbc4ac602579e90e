"""Settings of agents of kind "model", with secrets resolved. Does not import the model library."""

from __future__ import annotations

from semel.faces.config import kinds
from semel.faces.config.model import Agent, Mcp
from semel.gateway.settings import McpSettings, ModelSettings


def settings(name: str, agent: Agent, place: kinds.ConfigSource) -> ModelSettings | None:
    """The model settings of an agent; `None` for other kinds. Raises ConfigError if a secret cannot be read."""
    if agent.kind != "model" or agent.model is None:
        return None
    where = f"[agents.{name}]"
    return ModelSettings(
        model=agent.model,
        key=kinds.secret(agent.key, f'{where} "key"', place) if agent.key is not None else None,
        base_url=agent.base_url,
        instructions=agent.instructions,
        tools=tuple(agent.tools),
        mcp={key: _mcp(f"[agents.{name}.mcp.{key}]", one, place) for key, one in agent.mcp.items()},
        context=agent.context,
        max_tokens=agent.max_tokens,
        max_requests=agent.max_requests,
        compaction=agent.compaction,
        options=dict(agent.settings),
    )


def _mcp(where: str, one: Mcp, place: kinds.ConfigSource) -> McpSettings:
    def read(values: dict[str, str], what: str) -> dict[str, str]:
        return {key: kinds.secret(value, f'{where} {what} "{key}"', place) for key, value in values.items()}

    return McpSettings(tuple(one.command or ()), one.url or "", read(one.env, "env"), read(one.headers, "headers"))
