"""Find known ACP agents on PATH and propose the lines of semel.toml for them.

The agents are only looked up, never started: nothing runs unless a person asked for it.
"""

from __future__ import annotations

import json
import shutil
from typing import TypedDict

from semel.agents.known import KNOWN_AGENTS, KnownAgent


class FoundAgent(TypedDict):
    """One agent on PATH. `command` is its argv, `line` the lines of semel.toml that configure it."""

    name: str
    command: list[str]
    line: str


def find_agents_on_path(path: str | None = None) -> list[FoundAgent]:
    """The known ACP agents that are executable on PATH (or on `path`), one per name, in the order of `known.py`."""
    found: dict[str, FoundAgent] = {}
    for one in KNOWN_AGENTS:
        if one.name not in found and shutil.which(one.command[0], path=path):
            found[one.name] = {"name": one.name, "command": list(one.command), "line": _lines(one)}
    return list(found.values())


def _lines(one: KnownAgent) -> str:
    lines = [f"[agents.{one.name}]", 'kind = "acp"', f"command = {json.dumps(list(one.command))}"]
    if one.env:
        pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in one.env.items())
        lines.append(f"env = {{ {pairs} }}")
    return "\n".join(lines)
