"""The changes of files that a tool call makes, or that a permission request is about, as lines for a terminal.

A line that goes or comes has its sign and a tint of red or green. Its text has the colours of its language, which are
those of the theme (code_colours.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import zip_longest

from rich.cells import cell_len, chop_cells
from textual.content import Content, Span

from semel.faces.terminal.code_colours import LineColours
from semel.faces.terminal.line_matcher import LineMatcher
from semel.faces.terminal.line_text import Line, Piece, format_line
from semel.text.json_types import Json
from semel.text.visible import visible

SIGN_STYLES = {"-": "$text-error", "+": "$text-success"}
TINTS = {"-": "on $error 8%", "+": "on $success 8%"}  # of a whole line
ANSI_STYLES = {"-": "ansi_red", "+": "ansi_green"}
SIDE_BY_SIDE_CELLS = 110  # from which width on the old and the new text stand side by side
TAB_CELLS = 8
CONTEXT_LINES = 3
MAX_KEPT_DIFFS = 16  # whose lines were compared: they are drawn for each width, and in the request for the change
DIVIDER = " │ "
COARSE_MESSAGE = "too many lines for a comparison: some that are shown as changed may be the same"

Group = Sequence[tuple[str, int, int, int, int]]  # of difflib's opcodes, with the lines around them


def list_changes(
    diffs: Sequence[Json], max_lines: int | None = None, width: int = 0, key: str = "", *, is_ansi: bool = False
) -> Sequence[Line]:
    """List the lines of changes of files (ACP's `Diff`, as in the API's items), with three lines around each: as
    unified diffs, or side by side if there are cells enough in a line of `width` cells.

    `max_lines`: more lines are left out and counted; None: none are. `key`: which one shows them, if one does.
    `is_ansi`: whether the theme has but the terminal's sixteen colours. A tint of these would hide the text on it: the
    lines themselves are red or green.
    """
    lines = [line for diff in diffs for line in _list_lines(diff, width)]
    if max_lines is not None and len(lines) > max_lines + 1:
        rest = f"… {len(lines) - max_lines} more lines{f' ({key})' if key else ''}"
        lines = [*lines[:max_lines], [Piece(rest, "dim")]]
    return [[_draw_in_ansi(piece) for piece in line] for line in lines] if is_ansi else lines


def format_diffs(
    diffs: Sequence[Json], max_lines: int | None = None, width: int = 0, key: str = "", *, is_ansi: bool = False
) -> Content:
    """Format changes of files as one text (see `list_changes`)."""
    return Content("\n").join(map(format_line, list_changes(diffs, max_lines, width, key, is_ansi=is_ansi)))


def _draw_in_ansi(piece: Piece) -> Piece:
    return Piece(
        piece.text, next((ANSI_STYLES[sign] for sign, tint in TINTS.items() if tint in piece.style), piece.style)
    )


def _list_lines(diff: Json, width: int) -> Iterator[Line]:
    """List a line with the file's name, one that says so if its text is too large to be here, and the changes."""
    is_new = diff.get("oldText") is None and not diff.get("left_out")
    yield [Piece(visible(f"{diff['path']}{' (a new file)' if is_new else ''}"), "bold")]
    if diff.get("left_out"):
        yield [Piece(f"{diff['left_out']:,} characters are not shown here", "dim")]
    old, new = (diff.get("oldText") or "").splitlines(), (diff.get("newText") or "").splitlines()
    groups, is_coarse = _group_changes(tuple(old), tuple(new))
    if is_coarse:
        yield [Piece(COARSE_MESSAGE, "dim")]
    coloured_old, coloured_new = _colour(old, str(diff["path"])), _colour(new, str(diff["path"]))
    list_group = _pair_group if width >= SIDE_BY_SIDE_CELLS else _list_group
    for number, group in enumerate(groups):
        if number and width >= SIDE_BY_SIDE_CELLS:
            yield [Piece("⋮", "dim")]
        yield from list_group(group, coloured_old, coloured_new, width)


@lru_cache(maxsize=MAX_KEPT_DIFFS)
def _group_changes(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[Sequence[Group], bool]:
    """Return the groups of changes, and whether some lines in them were not compared."""
    matcher = LineMatcher(old, new)
    return list(matcher.get_grouped_opcodes(CONTEXT_LINES)), matcher.is_coarse


def _colour(lines: Sequence[str], path: str) -> Sequence[Piece]:
    shown = [visible(line).expandtabs(TAB_CELLS) for line in lines]
    colours = LineColours(shown, path)
    return [Piece(line, "", partial(colours.find, number)) for number, line in enumerate(shown)]


def _list_group(group: Group, old: Sequence[Piece], new: Sequence[Piece], width: int) -> Iterator[Line]:
    """List a group of changes as in a unified diff."""
    _, old_start, _, new_start, _ = group[0]
    _, _, old_end, _, new_end = group[-1]
    yield [Piece(f"@@ -{_format_range(old_start, old_end)} +{_format_range(new_start, new_end)} @@", "dim")]
    for tag, old_start, old_end, new_start, new_end in group:
        if tag == "equal":
            for number in range(new_start, new_end):
                yield from (line[:2] for line in _fold(" ", " ", new[number], width))  # without the blanks behind it
        else:
            for number in range(old_start, old_end):
                yield from _fold("-", "-", old[number], width)
            for number in range(new_start, new_end):
                yield from _fold("+", "+", new[number], width)


def _format_range(start: int, end: int) -> str:
    """Format lines as in a unified diff: the first one, from 1 on, and how many; of none, the one before them."""
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


def _tint(sign: str, prefix: str, piece: Piece, cells: int) -> Line:
    """Return a line that goes or comes: what stands before it, its text, and the tint up to its last cell."""
    tint = TINTS[sign]
    blanks = " " * (cells - cell_len(prefix + piece.text))
    return [Piece(prefix, f"{SIGN_STYLES[sign]} {tint}"), piece._replace(style=tint), Piece(blanks, tint)]


def _pair_group(group: Group, old: Sequence[Piece], new: Sequence[Piece], width: int) -> Iterator[Line]:
    """List a group of changes with the old and the new text side by side."""
    cells = (width - len(DIVIDER)) // 2
    for tag, old_start, old_end, new_start, new_end in group:
        signs = (" ", " ") if tag == "equal" else ("-", "+")
        left = (_number(number, signs[0], old[number], cells) for number in range(old_start, old_end))
        right = (_number(number, signs[1], new[number], cells) for number in range(new_start, new_end))
        none: list[Line] = []
        for old_lines, new_lines in zip_longest(left, right, fillvalue=none):
            for old_line, new_line in zip_longest(old_lines, new_lines):
                left_half = old_line if old_line is not None else [Piece(" " * cells)]
                yield [*left_half, Piece(DIVIDER, "dim"), *(new_line or [])]


def _number(index: int, sign: str, piece: Piece, cells: int) -> list[Line]:
    """Return a line with its number, folded into lines of so many cells."""
    return _fold(f"{index + 1:>4}{sign} ", sign, piece, cells)


def _fold(prefix: str, sign: str, piece: Piece, cells: int) -> list[Line]:
    """Return a line, with its sign or number, as lines of so many cells; 0: as one. No other line than the first has a
    sign: what is in the text is not taken for one.
    """
    parts = chop_cells(piece.text, cells - len(prefix)) if cells else [piece.text]
    offset = 0
    lines: list[Line] = []
    for part in parts or [""]:
        folded = Piece(part, "", partial(_cut_colours, piece.find_colours, offset, offset + len(part)))
        if sign == " ":
            blanks = " " * (cells - cell_len(prefix + part))
            lines.append([Piece(prefix), folded, Piece(blanks)])
        else:
            lines.append(_tint(sign, prefix, folded, cells))
        prefix, offset = " " * len(prefix), offset + len(part)
    return lines


def _cut_colours(find_colours: Callable[[], Sequence[Span]], start: int, end: int) -> Sequence[Span]:
    """Return the colours of a part of a text."""
    return [
        Span(max(span.start, start) - start, min(span.end, end) - start, span.style)
        for span in find_colours()
        if span.start < end and span.end > start
    ]
