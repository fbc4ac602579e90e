"""A table of known ACP agents: the command that starts each one and the prefixes of its environment variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath


@dataclass(frozen=True)
class KnownAgent:
    """One known agent.

    env      variables that its configuration should set
    vendor   prefixes of the variables it reads (API keys, options); these pass from the gateway's environment
    """

    name: str
    command: tuple[str, ...]
    vendor: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


KNOWN_AGENTS = (
    # Without ENABLE_TOOL_SEARCH=false its model has to search before it finds send_message.
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
    """Prefixes of the variables that the agent in this command line reads; empty if the agent is unknown.

    The agent is also recognised behind npx, uvx or node, with a version (`name@1.2`) and as a path.
    """
    words = {PurePath(word.rpartition("@")[0] or word).name for word in command}
    words |= {part for word in command for part in PurePath(word).parts}
    return tuple(prefix for one in KNOWN_AGENTS if one.command[0] in words for prefix in one.vendor)
