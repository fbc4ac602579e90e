"""The drawing of a part's life in the docs is the table."""

from __future__ import annotations

import re
from pathlib import Path

from semel.law.delivery import TABLE

DOCS = Path(__file__).parents[2] / "docs" / "outbox.md"


def drawing() -> str:
    """The table as a mermaid state diagram: one arrow for each pair of states, with its events."""
    lines = ["stateDiagram-v2", "    [*] --> queued"]
    for state, row in TABLE.items():
        events: dict[str, list[str]] = {}
        for event, done in row.items():
            events.setdefault(done.state, []).append(event)
        lines += [f"    {state} --> {to}: {', '.join(names)}" for to, names in events.items()]
    lines += [f"    {state} --> [*]" for state, row in TABLE.items() if not row]
    return "\n".join(lines)


def test_the_drawing_in_the_docs_is_the_table() -> None:
    found = re.search(r"```mermaid\n(.*?)\n```", DOCS.read_text(), re.DOTALL)
    assert found is not None
    assert found[1] == drawing(), f"put this into {DOCS.name}:\n{drawing()}"
