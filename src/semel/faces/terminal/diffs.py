"""The changes of files that a tool call makes, or that a permission request is about, as lines for a terminal."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from rich.text import Text

from semel.text.json_types import Json
from semel.text.visible import visible

STYLES = {"-": "red", "+": "green", "@": "dim"}
HEADER_LINES = 2  # of a unified diff, before its first hunk


def format_diffs(diffs: Sequence[Json], max_lines: int | None = None) -> Text:
    """Format changes of files (ACP's `Diff`, as in the API's items) as unified diffs with three lines around each.

    `max_lines`: more lines are left out and counted; None: none are.
    """
    lines = [line for diff in diffs for line in _list_lines(diff)]
    if max_lines is not None and len(lines) > max_lines + 1:
        lines = [*lines[:max_lines], (f"… {len(lines) - max_lines} more lines", "dim")]
    return Text("\n").join(Text(visible(line), style) for line, style in lines)


def _list_lines(diff: Json) -> Iterator[tuple[str, str]]:
    """Yield each line of a change, and its style."""
    old = diff.get("oldText")
    yield f"{diff['path']}{' (a new file)' if old is None and not diff.get('left_out') else ''}", "bold"
    if diff.get("left_out"):
        yield f"{diff['left_out']:,} characters are not shown here", "dim"
        return
    texts = ((old or "").splitlines(), (diff.get("newText") or "").splitlines())
    for number, line in enumerate(difflib.unified_diff(*texts, lineterm="")):
        if number >= HEADER_LINES:
            yield line, STYLES.get(line[:1], "")
