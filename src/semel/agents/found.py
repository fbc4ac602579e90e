"""Agents found on PATH:

Named, with the lines that would use each. Never started (issue: nothing runs unasked).
"""

from __future__ import annotations

import json
import shutil
from typing import TypedDict

from semel.agents.known import KNOWN, Known


class Found(TypedDict):
    """`command` is the argv; `line` the lines of semel.toml that would use it."""

    name: str
    command: list[str]
    line: str


def found_on_path(path: str | None = None) -> list[Found]:
    """Known ACP agents that are executable on PATH (or on `path`), one per name, in the order of KNOWN."""
    found: dict[str, Found] = {}
    for one in KNOWN:
        if one.name not in found and shutil.which(one.command[0], path=path):
            found[one.name] = {"name": one.name, "command": list(one.command), "line": _lines(one)}
    return list(found.values())


def _lines(one: Known) -> str:
    lines = [f"[agents.{one.name}]", 'kind = "acp"', f"command = {json.dumps(list(one.command))}"]
    if one.env:
        pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in one.env.items())
        lines.append(f"env = {{ {pairs} }}")
    return "\n".join(lines)
