"""The changes of files that a tool call makes, or that a permission request is about, as lines for a terminal."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len, chop_cells
from rich.text import Text

from semel.text.json_types import Json
from semel.text.visible import visible

STYLES = {"-": "red", "+": "green", "@": "dim"}
HEADER_LINES = 2  # of a unified diff, before its first hunk
SIDE_BY_SIDE_CELLS = 110  # from which width on the old and the new text stand side by side
NUMBER_CELLS = 6  # of the number of a line, with its sign and a blank
DIVIDER = " │ "


def format_diffs(diffs: Sequence[Json], max_lines: int | None = None, width: int = 0, key: str = "") -> Text:
    """Format changes of files (ACP's `Diff`, as in the API's items), with three lines around each: as unified diffs, or
    side by side if there are cells enough in a line of `width` cells.

    `max_lines`: more lines are left out and counted; None: none are. `key`: which one shows them, if one does.
    """
    list_lines = _list_pairs if width >= SIDE_BY_SIDE_CELLS else _list_unified
    lines = [line for diff in diffs for line in list_lines(diff, width)]
    if max_lines is not None and len(lines) > max_lines + 1:
        rest = f"… {len(lines) - max_lines} more lines{f' ({key})' if key else ''}"
        lines = [*lines[:max_lines], Text(rest, "dim")]
    return Text("\n").join(lines)


def _list_header(diff: Json) -> list[Text]:
    """Name the file; and say so if its text is too large to be here."""
    is_new = diff.get("oldText") is None and not diff.get("left_out")
    header = [Text(visible(f"{diff['path']}{' (a new file)' if is_new else ''}"), "bold")]
    if diff.get("left_out"):
        header.append(Text(f"{diff['left_out']:,} characters are not shown here", "dim"))
    return header


def _split_texts(diff: Json) -> tuple[list[str], list[str]]:
    """Return the lines of the old and of the new text; none if they are left out."""
    return (diff.get("oldText") or "").splitlines(), (diff.get("newText") or "").splitlines()


def _list_unified(diff: Json, width: int) -> Iterator[Text]:
    yield from _list_header(diff)
    for number, line in enumerate(difflib.unified_diff(*_split_texts(diff), lineterm="")):
        if number >= HEADER_LINES:
            yield Text(visible(line), STYLES.get(line[:1], ""))


def _list_pairs(diff: Json, width: int) -> Iterator[Text]:
    yield from _list_header(diff)
    old, new = _split_texts(diff)
    cells = (width - len(DIVIDER)) // 2
    for number, group in enumerate(difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(3)):
        if number:
            yield Text("⋮", "dim")
        for tag, old_start, old_end, new_start, new_end in group:
            is_same = tag == "equal"
            left = [_number(n, " " if is_same else "-", old[n], cells) for n in range(old_start, old_end)]
            right = [_number(n, " " if is_same else "+", new[n], cells) for n in range(new_start, new_end)]
            styles = ("", "") if is_same else ("red", "green")
            none: list[str] = []
            for old_pieces, new_pieces in zip_longest(left, right, fillvalue=none):
                yield from _join_pair(old_pieces, new_pieces, *styles, cells)


def _number(index: int, sign: str, line: str, cells: int) -> list[str]:
    """Return a line with its number, folded into pieces of at most so many cells."""
    pieces = chop_cells(visible(line).expandtabs(8), cells - NUMBER_CELLS) or [""]
    return [f"{index + 1:>4}{sign} {pieces[0]}", *(f"{'':{NUMBER_CELLS}}{piece}" for piece in pieces[1:])]


def _join_pair(left: list[str], right: list[str], old_style: str, new_style: str, cells: int) -> Iterator[Text]:
    for old, new in zip_longest(left, right, fillvalue=""):
        line = Text(old, old_style) if old_style else Text(old)
        padded = Text(" " * max(cells - cell_len(old), 0))
        yield Text.assemble(line, padded, (DIVIDER, "dim"), (new, new_style))
