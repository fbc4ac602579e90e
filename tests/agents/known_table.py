"""The table of docs/use-an-agent.md, made from the known agents: `python tests/agents/known_table.py --write`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from semel.agents.known import KNOWN_AGENTS

DOC = Path(__file__).parents[2] / "docs" / "use-an-agent.md"
BEGIN, END = "<!-- agents: made by tests/agents/known_table.py -->", "<!-- end of agents -->"


def known_table() -> str:
    rows = ["| agent | install | program |", "|---|---|---|"]
    for agent in {agent.name: agent for agent in reversed(KNOWN_AGENTS)}.values():
        install = f"`{shlex.join(agent.install_command)}`" if agent.install_command else "see its documentation"
        rows.append(f"| [`{agent.name}`](agents/{agent.name}.md) | {install} | `{shlex.join(agent.command)}` |")
    return "\n".join([*rows[:2], *sorted(rows[2:])])


def written(text: str) -> str:
    """The page with the table as it is now."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{known_table()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOC.write_text(written(DOC.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(known_table())
