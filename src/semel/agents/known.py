"""Agents we know of that speak ACP: how each is started, and which variables are its own. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath


@dataclass(frozen=True)
class Known:
    """One known agent.

    `env` is what its configuration should set; `vendor` the prefixes of its own variables.
    """

    name: str
    command: tuple[str, ...]
    vendor: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


KNOWN = (
    # Without ENABLE_TOOL_SEARCH=false its model has to search before it finds send_message.
    Known(
        "claude",
        ("claude-agent-acp",),
        ("ANTHROPIC_", "CLAUDE_", "ENABLE_TOOL_SEARCH", "IS_SANDBOX"),
        {"ENABLE_TOOL_SEARCH": "false"},
    ),
    Known("claude", ("claude-code-acp",), ("ANTHROPIC_", "CLAUDE_"), {"ENABLE_TOOL_SEARCH": "false"}),
    Known("codex", ("codex-acp",), ("OPENAI_", "CODEX_", "INITIAL_AGENT_MODE", "MODEL_PROVIDER")),
    Known("opencode", ("opencode", "acp"), ("OPENCODE_", "ANTHROPIC_", "OPENAI_")),
    Known("gemini", ("gemini", "--acp"), ("GEMINI_", "GOOGLE_")),
    Known("qwen", ("qwen", "--acp"), ("QWEN_", "OPENAI_", "DASHSCOPE_")),
    Known("hermes", ("hermes", "acp"), ("HERMES_", "OPENAI_", "OPENROUTER_", "NOUS_")),
    Known("vibe", ("vibe-acp",), ("VIBE_", "MISTRAL_")),
    Known("kimi", ("kimi", "acp"), ("KIMI_", "MOONSHOT_")),
    Known("goose", ("goose", "acp"), ("GOOSE_", "OPENAI_", "ANTHROPIC_")),
    Known("fast-agent", ("fast-agent-acp",), ("FAST_AGENT_", "OPENAI_", "ANTHROPIC_", "GENERIC_")),
    Known("pi", ("pi-acp",), ("PI_", "OPENAI_", "ANTHROPIC_")),
    Known("openclaw", ("openclaw", "acp"), ("OPENCLAW_",)),
    Known("auggie", ("auggie", "--acp"), ("AUGMENT_",)),
    Known("copilot", ("copilot", "--acp"), ("COPILOT_", "GH_", "GITHUB_")),
)


def vendor_prefixes(command: Sequence[str]) -> tuple[str, ...]:
    """Prefixes of the variables of the agent in this command line, also behind npx, uvx, node and paths."""
    words = {PurePath(word.rpartition("@")[0] or word).name for word in command}
    words |= {part for word in command for part in PurePath(word).parts}
    return tuple(prefix for one in KNOWN if one.command[0] in words for prefix in one.vendor)
