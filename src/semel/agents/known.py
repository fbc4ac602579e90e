"""Known ACP agents: how to install them, their commands and variables, and which of them are on PATH.

This module only looks agents up; it never starts them.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TypedDict


@dataclass(frozen=True)
class KnownAgent:
    """A known agent.

    - `command`: its argv.
    - `env_prefixes`: prefixes of the variables that it reads (API keys, options). These variables are passed on from
      the gateway's environment.
    - `env`: variables that its configuration should set.
    - `key`: the variable that holds its API key.
    - `other_keys`: other variables that log it in.
    - `npm`, `pypi`: the packages to install, in versions that are known to work.
    - `node`: the oldest major version of Node.js with which its packages work, as they say; 0 if any does.
    - `cli`: the program that people use without ACP, if it is another program.
    - `extensions`: what Semel adds to the `_meta` of its capabilities for this agent.
    """

    name: str
    command: tuple[str, ...]
    env_prefixes: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    other_keys: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    pypi: str = ""
    node: int = 0
    cli: str = ""
    extensions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def install_command(self) -> tuple[str, ...]:
        """The argv that installs the agent; () if no package is known."""
        if self.npm:
            return ("npm", "install", "-g", *self.npm)
        return ("pipx", "install", self.pypi) if self.pypi else ()

    @property
    def config_lines(self) -> str:
        """The lines of semel.toml that configure the agent."""
        lines = [f"[agents.{self.name}]", 'kind = "acp"', f"command = {json.dumps(list(self.command))}"]
        if self.env:
            pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in self.env.items())
            lines.append(f"env = {{ {pairs} }}")
        return "\n".join(lines)


# The capability of JetBrains' AIR extension whose signals `semel.acp_stream.notices.read_signal` reads. Claude's
# adapter tells of its retries only to clients that have it. Codex tells of them anyway, and asks its model once more
# after each turn if a client has it.
_TYPED_FAILURES = {"jetbrains": {"air": {"version": 1, "capabilities": ["sessionFailure"]}}}

KNOWN_AGENTS = (
    # Without ENABLE_TOOL_SEARCH=false, its model does not see the tool send_message until it searches for it.
    KnownAgent(
        "claude",
        ("claude-agent-acp",),
        ("ANTHROPIC_", "CLAUDE_", "ENABLE_TOOL_SEARCH", "IS_SANDBOX"),
        {"ENABLE_TOOL_SEARCH": "false"},
        key="ANTHROPIC_API_KEY",
        other_keys=("ANTHROPIC_AUTH_TOKEN",),  # its adapter says "Not logged in" then, and the login works
        npm=("@agentclientprotocol/claude-agent-acp@0.101.0",),
        node=22,
        cli="claude",
        extensions=_TYPED_FAILURES,
    ),
    KnownAgent("claude", ("claude-code-acp",), ("ANTHROPIC_", "CLAUDE_"), {"ENABLE_TOOL_SEARCH": "false"}),
    KnownAgent(
        "codex",
        ("codex-acp",),
        ("OPENAI_", "CODEX_", "INITIAL_AGENT_MODE", "MODEL_PROVIDER"),
        key="OPENAI_API_KEY",
        npm=("@agentclientprotocol/codex-acp@2.6.0", "@openai/codex@0.171.0"),
        cli="codex",
    ),
    KnownAgent(
        "opencode",
        ("opencode", "acp"),
        ("OPENCODE_", "ANTHROPIC_", "OPENAI_"),
        npm=("opencode-ai@1.18.33",),
    ),
    KnownAgent("gemini", ("gemini", "--acp"), ("GEMINI_", "GOOGLE_"), npm=("@google/gemini-cli@0.61.0",), node=20),
    KnownAgent(
        "qwen", ("qwen", "--acp"), ("QWEN_", "OPENAI_", "DASHSCOPE_"), npm=("@qwen-code/qwen-code@0.24.4",), node=22
    ),
    KnownAgent(
        "hermes",
        ("hermes", "acp"),
        ("HERMES_", "OPENAI_", "OPENROUTER_", "NOUS_"),
        pypi="hermes-agent[acp]==0.19.0",
    ),
    KnownAgent("vibe", ("vibe-acp",), ("VIBE_", "MISTRAL_"), pypi="mistral-vibe==3.0.2", cli="vibe"),
    KnownAgent("kimi", ("kimi", "acp"), ("KIMI_", "MOONSHOT_"), npm=("@moonshot-ai/kimi-code@2.1.0",), node=22),
    KnownAgent("goose", ("goose", "acp"), ("GOOSE_", "OPENAI_", "ANTHROPIC_")),
    KnownAgent(
        "fast-agent",
        ("fast-agent-acp",),
        ("FAST_AGENT_", "OPENAI_", "ANTHROPIC_", "GENERIC_"),
        pypi="fast-agent-mcp==0.10.48",
    ),
    KnownAgent(
        "pi",
        ("pi-acp",),
        ("PI_", "OPENAI_", "ANTHROPIC_"),
        npm=("pi-acp@0.0.34", "@earendil-works/pi-coding-agent@1.5.2"),
        node=22,
        cli="pi",
    ),
    KnownAgent("openclaw", ("openclaw", "acp"), ("OPENCLAW_",), npm=("openclaw@2026.9.6",), node=24),
    KnownAgent("auggie", ("auggie", "--acp"), ("AUGMENT_",)),
    # With this key it needs no login; CLINE_PROVIDER says whose key it is.
    KnownAgent("cline", ("cline", "--acp"), ("CLINE_",), key="CLINE_API_KEY", npm=("cline@3.0.65",)),
    KnownAgent("copilot", ("copilot", "--acp"), ("COPILOT_", "GH_", "GITHUB_"), npm=("@github/copilot@1.0.102",)),
    KnownAgent("agentao", ("agentao", "--acp", "--stdio"), ("AGENTAO_", "OPENAI_"), pypi="agentao==0.5.17"),
    KnownAgent(
        "nanocoder",
        ("nanocoder", "--acp"),
        ("NANOCODER_", "OPENAI_"),
        npm=("@nanocollective/nanocoder@1.30.0",),
    ),
    KnownAgent("openhands", ("openhands", "acp"), ("OPENHANDS_", "LLM_"), pypi="openhands==1.16.0"),
    KnownAgent(
        "deepagents",
        ("dcode", "--acp"),
        ("DEEPAGENTS_", "OPENAI_", "ANTHROPIC_", "GOOGLE_"),
        pypi="deepagents-code==0.1.88",
    ),
    KnownAgent("gptme", ("gptme-acp",), ("GPTME_", "OPENAI_", "ANTHROPIC_"), pypi="gptme[acp]==0.35.1", cli="gptme"),
    KnownAgent("kilo", ("kilo", "acp"), ("KILO_", "OPENAI_", "ANTHROPIC_"), npm=("@kilocode/cli@7.7.7",)),
)


def recognise_command(command: Sequence[str]) -> list[KnownAgent]:
    """Return the known agents that this command line may start: usually one; [] if the agent is unknown.

    An agent is also recognised after npx, uvx or node, with a version (`name@1.2`) and as a path.
    """
    words = {PurePath(word.rpartition("@")[0] or word).name for word in command}
    words |= {part for word in command for part in PurePath(word).parts}
    return [agent for agent in KNOWN_AGENTS if agent.command[0] in words]


def explain_plain_program(command: Sequence[str]) -> str | None:
    """Return advice about a command that is an agent's own program, which does not speak ACP; None for all others."""
    if len(command) != 1:
        return None
    program = PurePath(command[0]).name
    known = next((agent for agent in KNOWN_AGENTS if agent.cli == program and agent.command[0] != program), None)
    if known is None:
        return None
    adapter = json.dumps(list(known.command))
    return f"{program} itself does not speak ACP. Its adapter does: {shlex.join(known.install_command)}, and {adapter}"


def vendor_prefixes(command: Sequence[str]) -> tuple[str, ...]:
    """Return the prefixes of the variables that the agent in this command line reads; () if the agent is unknown."""
    return tuple(prefix for agent in recognise_command(command) for prefix in agent.env_prefixes)


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
            agents[agent.name] = {"name": agent.name, "command": list(agent.command), "line": agent.config_lines}
    return list(agents.values())


def find_agents_without_adapter(path: str | None = None) -> list[KnownAgent]:
    """Return the known agents whose own program is on PATH (or on `path`), but not the one that speaks ACP for it."""
    usable = {agent["name"] for agent in find_agents_on_path(path)}
    return [
        agent for agent in KNOWN_AGENTS if agent.cli and agent.name not in usable and shutil.which(agent.cli, path=path)
    ]


def find_known(name: str) -> KnownAgent | None:
    """Return the known agent with this name; None if there is none. Of several, prefer one whose program is on PATH."""
    agents = [agent for agent in KNOWN_AGENTS if agent.name == name]
    return next((agent for agent in agents if shutil.which(agent.command[0])), agents[0] if agents else None)
