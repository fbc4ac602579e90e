"""The tables of docs/agents.md, made from the profiles and from the recorded traces.

python tests/stream/agents_table.py --write
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from stream_truth import answers, name_of, scenarios, traces, view

from semel.acp_stream import CAREFUL, PROFILES

DOC = Path(__file__).parent.parent.parent / "docs" / "agents.md"
AGENTS = ["claude", "codex", "codex-zed", "opencode", "hermes"]
BEGIN, END = "<!-- {}: made by tests/stream/agents_table.py -->", "<!-- end of {} -->"
LINES = {f"line {i} of the long output abcdefghijklmnopqrstuvwxyz" for i in range(1, 5001)}
TICKS = {f"tick {i}" for i in range(1, 21)}


def cell(shown: list[dict[str, Any]], names: list[str]) -> str:
    """What the view of one trace shows, beside what the model said."""
    agent = [o for o in shown if o["item"] == "message" and o["role"] == "agent"]
    texts = [o["text"].removeprefix("\n\n") for o in agent if not o.get("superseded")]
    parts = ["=" if texts == [text for name in names for text in answers(name)] else "~"]
    counts = {
        "a": sum(1 for o in agent if o.get("superseded")),
        "n": sum(1 for o in shown if o["item"] == "notice"),
        "p": sum(1 for o in agent if o.get("partial")),
    }
    parts += [f"{count}{letter}" for letter, count in counts.items() if count]
    parts += output(shown)
    ends = Counter(o["stop"] if o["stop"] != "error" else "error" for o in shown if o["item"] == "turn")
    if any(o.get("error") == "the agent died" for o in shown):
        parts.append("†")
    elif ends["error"]:
        parts.append("!")
    if ends["cancelled"]:
        parts.append("c")
    return " ".join(parts)


def output(shown: list[dict[str, Any]]) -> list[str]:
    """How much of a long output is there, in percent of its lines."""
    percents = []
    for tool in (o for o in shown if o["item"] == "tool"):
        lines = set(tool["output"].splitlines())
        for whole in (LINES, TICKS):
            if lines & whole:
                percents.append(f"{100 * len(lines & whole) // len(whole)}%")
    return percents


def trace_table() -> str:
    cells: dict[str, dict[str, str]] = {}
    for trace in traces():
        agent, _, what = name_of(trace).partition("/")
        cells.setdefault(what, {})[agent] = cell(view(name_of(trace)), scenarios(trace))
    rows = ["| scenario | " + " | ".join(AGENTS) + " |", "|---" * (len(AGENTS) + 1) + "|"]
    for what in sorted(cells):
        rows.append(f"| {what} | " + " | ".join(cells[what].get(agent, "") for agent in AGENTS) + " |")
    return "\n".join(rows)


def profile_table() -> str:
    rows = ["| profile | what differs from the careful reading |", "|---|---|"]
    for profile in PROFILES.values():
        if profile is CAREFUL:
            continue
        differs = []
        for each in fields(profile):
            value, careful = getattr(profile, each.name), getattr(CAREFUL, each.name)
            if each.name in ("name", "prose_leads") or value == careful:
                continue
            differs.append(f"`{each.name}`" if not isinstance(value, (str, bool)) else f"`{each.name}` = {value!r}")
        rows.append(f"| {profile.name} | {', '.join(differs) or 'nothing'} |")
    return "\n".join(rows)


def written(text: str) -> str:
    """The document with both tables as they are now."""
    for name, table in (("profiles", profile_table()), ("traces", trace_table())):
        begin, end = BEGIN.format(name), END.format(name)
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}\n\n{table}\n\n{end}{tail}"
    return text


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOC.write_text(written(DOC.read_text()))
    else:
        print(profile_table(), trace_table(), sep="\n\n")
