"""Known ACP agents: their commands and environment variables; and which of them are on PATH.

Agents are only looked up here, not started.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TypedDict


@dataclass(frozen=True)
class KnownAgent:
    """A known agent.

    - `command`: its argv.
    - `env_prefixes`: prefixes of the variables that it reads (API keys, options). These variables are passed on from
      the gateway's environment.
    - `env`: variables that its configuration should set.
    """

    name: str
    command: tuple[str, ...]
    env_prefixes: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


KNOWN_AGENTS = (
    # Without ENABLE_TOOL_SEARCH=false, Claude's model does not see the tool send_message until it searches for tools.
    KnownAgent(
        "claude",
        ("claude-agent-acp",),
        ("ANTHROPIC_", "CLAUDE_", "ENABLE_TOOL_SEARCH", "IS_SANDBOX"),
        {"ENABLE_TOOL_SEARCH": "false"},
    ),
    KnownAgent("claude", ("claude-code-acp",), ("ANTHROPIC_", "CLAUDE_"), {"ENABLE_TOOL_SEARCH": "false"}),
    KnownAgent("codex", ("codex-acp",), ("OPENAI_", "CODEX_", "INITIAL_AGENT_MODE", "MODEL_PROVIDER")),
    KnownAgent("opencode", ("opencode", "acp"), ("OPENCODE_", "ANTHROPIC_", "OPENAI_")),
    KnownAgent("gemini", ("gemini", "--acp"), ("GEMINI_", "GOOGLE_")),
    KnownAgent("qwen", ("qwen", "--acp"), ("QWEN_", "OPENAI_", "DASHSCOPE_")),
    KnownAgent("hermes", ("hermes", "acp"), ("HERMES_", "OPENAI_", "OPENROUTER_", "NOUS_")),
    KnownAgent("vibe", ("vibe-acp",), ("VIBE_", "MISTRAL_")),
    KnownAgent("kimi", ("kimi", "acp"), ("KIMI_", "MOONSHOT_")),
    KnownAgent("goose", ("goose", "acp"), ("GOOSE_", "OPENAI_", "ANTHROPIC_")),
    KnownAgent("fast-agent", ("fast-agent-acp",), ("FAST_AGENT_", "OPENAI_", "ANTHROPIC_", "GENERIC_")),
    KnownAgent("pi", ("pi-acp",), ("PI_", "OPENAI_", "ANTHROPIC_")),
    KnownAgent("openclaw", ("openclaw", "acp"), ("OPENCLAW_",)),
    KnownAgent("auggie", ("auggie", "--acp"), ("AUGMENT_",)),
    KnownAgent("copilot", ("copilot", "--acp"), ("COPILOT_", "GH_", "GITHUB_")),
)


def vendor_prefixes(command: Sequence[str]) -> tuple[str, ...]:
    """Return the prefixes of the variables that the agent in this command line reads; none if the agent is unknown.

    The agent is also recognised after npx, uvx or node, with a version (`name@1.2`) and as a path.
    """
    words = {PurePath(word.rpartition("@")[0] or word).name for word in command}
    words |= {part for word in command for part in PurePath(word).parts}
    return tuple(prefix for agent in KNOWN_AGENTS if agent.command[0] in words for prefix in agent.env_prefixes)


class FoundAgent(TypedDict):
    """A known agent that is on PATH. `command`: its argv. `line`: the lines of semel.toml that configure it."""

    name: str
    command: list[str]
    line: str


def find_agents_on_path(path: str | None = None) -> list[FoundAgent]:
    """Return the known agents whose program is on PATH (or on `path`), one per name, in the order of KNOWN_AGENTS."""
    agents: dict[str, FoundAgent] = {}
    for agent in KNOWN_AGENTS:
        if agent.name not in agents and shutil.which(agent.command[0], path=path):
            agents[agent.name] = {"name": agent.name, "command": list(agent.command), "line": _lines(agent)}
    return list(agents.values())


def _lines(agent: KnownAgent) -> str:
    lines = [f"[agents.{agent.name}]", 'kind = "acp"', f"command = {json.dumps(list(agent.command))}"]
    if agent.env:
        pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in agent.env.items())
        lines.append(f"env = {{ {pairs} }}")
    return "\n".join(lines)
