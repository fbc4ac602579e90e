"""The whole names by which agents call the tools that Semel gives them, as recorded from each agent."""

from __future__ import annotations

from collections.abc import Iterable

MCP_SERVER_NAME = "semel"
"""The name of Semel's MCP server in every agent."""
_FORMS = (
    "mcp__{server}__{tool}",  # Claude Code, Hermes, Qwen
    "mcp.{server}.{tool}",  # Codex
    "Tool: {server}/{tool}",  # the older Codex adapter
    "{server}_{tool}",  # OpenCode, Kilo
    "{server}/{tool}",  # fast-agent
    "mcp_{server}_{tool}",  # agentao
    "mcp_{server}.{tool}",  # Mistral Vibe
    "{tool} ({server} MCP Server)",  # Gemini CLI
    "{server}-{tool}",  # Copilot
)


def list_whole_names(tools: Iterable[str]) -> dict[str, str]:
    """Return each whole name of each of these tools, with the tool's own name."""
    return {form.format(server=MCP_SERVER_NAME, tool=tool): tool for tool in tools for form in _FORMS}
