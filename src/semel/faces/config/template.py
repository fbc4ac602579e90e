"""The semel.toml that `semel init` writes: every setting with its default and description from the model."""

from __future__ import annotations

import json
import textwrap

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from semel.faces.config.model import (
    Agent,
    Background,
    Channel,
    Destination,
    Gateway,
    Group,
    Heartbeat,
    Ledger,
    Mcp,
    Node,
    Person,
    Schedule,
    Session,
    Table,
)

HEAD = """\
# Semel's configuration. Everything in it may be left out: without it there is the demo agent.
# Secrets of channels may be "env:NAME" or "file:PATH". Durations are seconds, or "90s", "10m", "2h", "1d".
# docs/configuration.md says more.
"""

EXAMPLES = {
    "listen": "127.0.0.1:8420",
    "data_dir": "~/.local/share/semel",
    "default_agent": "main",
    "url": "sqlite:///ledger.db",
    "command": ["codex-acp"],
    "model": "anthropic:claude-opus-5",
    "key": "env:ANTHROPIC_API_KEY",
    "base_url": "http://127.0.0.1:11434/v1",
    "max_tokens": 8000,
    "settings": {},
    "headers": {},
    "cwd": "~/projects/example",
    "env": {},
    "trace": "traces",
    "channel": "hook",
    "address": "team",
    "allow": ["main:*"],
    "token": "file:ci.token",
    "sessions": ["main:ci:*"],
    "cron": "30 7 * * MON-FRI",
    "at": "2030-03-29 07:30",
    "every": "2h",
    "session": "main:web:me",
    "agent": "main",
    "accounts": ["matrix:@ada:example.org"],
    "policy": "always",
    "text": "Look at the calendar, and tell what today brings.",
    "hours": "08:00-22:00",
}


def template() -> str:
    return "\n".join(
        [
            HEAD,
            _table("gateway", Gateway),
            _table("ledger", Ledger),
            "# One section an agent; the first is the default one. `semel up` names those found here.",
            _table("agents.main", Agent, off=True),
            '# An MCP server for an agent of kind "model": a command, or a url.',
            _table("agents.main.mcp.files", Mcp, off=True),
            "# One section a channel account. A webhook's own settings: docs/configuration.md.",
            _table("channels.hook", Channel, off=True),
            "# A group with rules of its own, by its address there.",
            _table('channels.hook.group."ADDRESS"', Group, off=True),
            "# Who may talk, beside those whom `semel pair` lets in (docs/people.md).",
            _table("people.ada", Person, off=True),
            "# Names that agents may speak to beside home.",
            _table("destinations.team", Destination, off=True),
            "# One section a machine that reports with a token of its own (`semel exec`).",
            _table("nodes.ci", Node, off=True),
            "# What fires by the clock: exactly one of cron, at and every.",
            _table("schedules.morning", Schedule, off=True),
            "# How sessions take what comes: the first pattern of the file that fits a session's key is its own.",
            _table('sessions."main:telegram:*"', Session, off=True),
            "# A turn for sessions in which nothing happened for a while.",
            _table("heartbeat", Heartbeat),
            "# What agents may run in the background of their sessions (docs/jobs.md).",
            _table("background", Background),
        ]
    )


def _table(name: str, model: type[Table] | type[Channel], off: bool = False) -> str:
    lines = [f"#[{name}]" if off else f"[{name}]"]
    for key, field in model.model_fields.items():
        lines += textwrap.wrap(field.description or "", 98, initial_indent="# ", subsequent_indent="# ")
        lines.append(f"#{key} = {_value(key, field)}")
    return "\n".join(lines) + "\n"


def _value(key: str, field: FieldInfo) -> str:
    if key == "kind" and field.default is PydanticUndefined:
        return '"webhook"'
    if key == "idle_after":
        return '"10m"'
    if key == "wake":
        return '{ debounce = "2s", max_wait = "10s" }'
    value = field.get_default(call_default_factory=True)
    if value in (None, PydanticUndefined, []):
        value = EXAMPLES.get(key, value)
    if isinstance(value, float):
        return f'"{value / 60:g}m"' if value >= 60 else f'"{value:g}s"'
    return "{}" if value == {} else json.dumps(value)
