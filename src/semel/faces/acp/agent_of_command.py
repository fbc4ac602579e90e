"""Which configured agent a command is, for editors that put `semel acp --` before the command of an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from semel.agents.known import recognise_command


class UnknownCommand(Exception):
    """No configured agent has this command. The message says what to write into the configuration."""


def find_agent(command: Sequence[str], agents: Mapping[str, Any]) -> str:
    """Return the name of the agent with this command. Raises UnknownCommand.

    `agents`: the sections `[agents.NAME]` of semel.toml. Paths do not count: `/usr/bin/codex-acp` is `codex-acp`.
    """
    bare_command = _without_path(command)
    for name, section in agents.items():
        stated = section.get("command") if isinstance(section, dict) else None
        if isinstance(stated, list) and stated and _without_path(list(map(str, stated))) == bare_command:
            return name
    known = recognise_command(command)
    for agent in known:
        if agent.name in agents:
            return agent.name
    advice = f"add it with `semel agents add {known[0].name}`" if known else "add it to semel.toml, under [agents.NAME]"
    raise UnknownCommand(f"no agent of the gateway has the command {' '.join(command)!r}: {advice}, and restart it")


def _without_path(command: Sequence[str]) -> list[str]:
    return [Path(command[0]).name, *command[1:]]
