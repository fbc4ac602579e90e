"""The pages of docs/agents/, from the known agents, their profiles and agent_pages.toml.

python tests/agents/agent_pages.py --write
"""

from __future__ import annotations

import shlex
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

from semel.acp_stream.profiles import PROFILES, Profile
from semel.agents.known import KNOWN_AGENTS, KnownAgent

FOLDER = Path(__file__).parents[2] / "docs" / "agents"
HAND_WRITTEN: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
MARK = "<!-- Made by tests/agents/agent_pages.py; its words are in agent_pages.toml. -->"
SECOND_PROMPT = {
    "steers": "its running turn reads the message and answers both ([busy](../busy.md))",
    "queues": "the message waits in Semel until the turn has ended ([busy](../busy.md))",
}


def build_pages() -> dict[str, str]:
    """The text of each page, by file name. An agent with several commands has the page of its first one."""
    agents = {agent.name: agent for agent in reversed(KNOWN_AGENTS)}
    return {f"{name}.md": build_page(agent, HAND_WRITTEN[name]) for name, agent in sorted(agents.items())}


def build_page(agent: KnownAgent, written: dict[str, Any]) -> str:
    blocks = [f"# {written['title']}", MARK, *list_commands(agent)]
    blocks += ["## Log in", written["login"].strip(), list_facts(agent)]
    if "server" in written:
        blocks += ["## Use another server", written["server"].strip()]
    failures = list_failures(agent) | written.get("failures", {})
    works = written.get("works", {}) | describe_profile(PROFILES.get(agent.name))
    if "works" in written:
        blocks += ["## What works", table(works)]
    blocks += ["## If something fails", table(failures, "| you see | what it means, what to do |")]
    blocks.append("More: [use an agent](../use-an-agent.md) · [troubleshooting](../troubleshooting.md).")
    return "\n\n".join(blocks) + "\n"


def list_commands(agent: KnownAgent) -> list[str]:
    """What a person types to install, log in and try the agent."""
    rows = [(f"semel agents add {agent.name}{' --install' if agent.install_command else ''}", "")]
    if agent.key:
        rows.append((f"export {agent.key}=...", f"or: semel agents login {agent.name}"))
    else:
        rows.append((f"semel agents login {agent.name}", "if it offers a login; or set its key, see below"))
    rows.append((f'semel agents check {agent.name} --prompt "Say hello."', ""))
    width = max(len(command) for command, remark in rows if remark)
    lines = [f"{command:{width}}    # {remark}" if remark else command for command, remark in rows]
    install = shlex.join(agent.install_command)
    installs = [f"The first command runs this, if `{agent.command[0]}` is not on PATH:", "    " + install, "and writes"]
    first = "\n\n".join(installs) if install else "The first command writes"
    return [
        textwrap.indent("\n".join(lines), "    "),
        f"{first} these lines into semel.toml:",
        f"```toml\n{agent.config_lines}\n```",
        f'Start the gateway (`semel up`), and talk to it: `semel say {agent.name}:hello "Who are you?" --wait`.',
    ]


def list_facts(agent: KnownAgent) -> str:
    packages = [*agent.npm, *filter(None, [agent.pypi])]
    rows = {
        "tried with": ", ".join(f"`{package}`" for package in packages),
        "its own program": f"`{agent.cli}`, which does not speak ACP itself" if agent.cli else "",
        "variables that it gets": ", ".join(
            f"`{prefix}{'...' * prefix.endswith('_')}`" for prefix in agent.env_prefixes
        )
        + ", and those in `env` of its section",
    }
    return table({name: value for name, value in rows.items() if value})


def describe_profile(profile: Profile | None) -> dict[str, str]:
    """What Semel does because of the agent's profile, as rows of "What works"."""
    profile = profile or PROFILES["careful"]
    rows = {"a message while it works": SECOND_PROMPT[profile.second]}
    if profile.unattended_modes:
        modes = ", ".join(f"`{mode}`" for mode in sorted(profile.unattended_modes))
        rows["modes in which it asks nobody"] = modes
    if profile.asking_mode:
        rows["mode that Semel sets"] = f"`{profile.asking_mode}`, if it starts in one of these and `mode` is not set"
    return rows


def list_failures(agent: KnownAgent) -> dict[str, str]:
    """The failures that every agent has, with this agent's words."""
    install = f"`semel agents add {agent.name} --install`" if agent.install_command else "install it"
    key = f"set `{agent.key}` where `semel up` runs and restart the gateway, or " if agent.key else ""
    missing = f"It is not installed, or not on the PATH of the gateway: {install}."
    return {
        f"`command not found: '{agent.command[0]}'`": missing,
        "`is not logged in`": f"Log in: {key}do what the message says. Then `/retry`.",
    }


def table(rows: dict[str, str], head: str = "| | |") -> str:
    return "\n".join([head, "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


if __name__ == "__main__":
    for name, text in build_pages().items():
        if "--write" in sys.argv:
            FOLDER.mkdir(exist_ok=True)
            (FOLDER / name).write_text(text, encoding="utf-8")
        else:
            print(text)
