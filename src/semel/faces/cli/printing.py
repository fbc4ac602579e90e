"""Printing: tables and colours on a terminal; tab-separated rows without colours or header in a pipe."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from semel.installation import PROGRAM, find_command
from semel.text.visible import escape_json, visible

STATE_STYLES = {
    "sent": "green", "queued": "cyan", "sending": "cyan", "unknown": "yellow", "held": "yellow",
    "rejected": "red", "dropped": "dim", "idle": "dim", "running": "green", "waiting": "cyan",
    "said": "green", "echo": "cyan", "refused": "red", "quiet": "dim",
    "accepted": "green", "done": "green", "failed": "red", "failed later": "red", "cancelled": "yellow", "lost": "red",
    "online": "green", "starting": "dim", "offline": "yellow", "denied": "bold red",
}  # fmt: skip
"""State -> rich style. The word alone carries the meaning; colour only repeats it."""

_ADVISED_COMMAND = re.compile(rf"(?<![\w./:=-]){PROGRAM}(?= [a-z])((?: [a-z][a-z-]*){{0,2}})(?=([^`\n;()]*))")
_given_options: dict[str, str] = {}


def remember_option(name: str, value: Path | None) -> Path | None:
    """Remember that the command line has this option, or has it not (None), for `name_command`. Return its value."""
    _given_options.pop(name, None)
    if value is not None:
        _given_options[name] = shlex.quote(str(value))
    return value


def forget_options() -> None:
    """Forget what `remember_option` remembers of an earlier command line."""
    _given_options.clear()


def name_command(text: str) -> str:
    """Return advice such as "run `semel up`" with the command as it is typed here: from a clone, `.venv/bin/semel`.

    A command gets the options --config and --data-dir that this one was given, if it takes them and has none.
    """
    if not _ADVISED_COMMAND.search(text):
        return text
    program = find_command()
    return text if program == PROGRAM and not _given_options else _ADVISED_COMMAND.sub(partial(_write, program), text)


def _write(program: str, match: re.Match[str]) -> str:
    """Return an advised command as it is typed here; unchanged if it is none, such as in "the nick semel is taken"."""
    from semel.faces.cli import build_command  # only now: it imports the module of the advised command

    word = match[1].split()[0]
    is_command = word in getattr(build_command(word), "commands", {})
    return program + _add_given_options(match[1], match[2]) if is_command else match[0]


def _add_given_options(words: str, rest: str) -> str:
    """Return the words of an advised command, such as " outbox list", with the given options. `rest`: what follows."""
    from semel.faces.cli import build_command

    named: list[str] = []
    command = build_command(words.split()[0])
    for word in words.split():
        if (inner := getattr(command, "commands", {}).get(word)) is None:
            break
        command = inner
        named.append(word)
    taken = {option for param in getattr(command, "params", ()) for option in param.opts}
    options = [f"{name} {value}" for name, value in _given_options.items() if name in taken and name not in rest]
    return " ".join(["", *named, *options, *words.split()[len(named) :]])


def stdout_console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def print_labelled(label: str, text: str | Text, width: int) -> None:
    """Print a line with its label in a column of `width` cells. On a terminal, a long text is wrapped between words
    beside its label; elsewhere it stays one line.
    """
    shown = text if isinstance(text, Text) else Text(visible(text))
    if not sys.stdout.isatty():
        stdout_console().print(Text(f"{label:<{width}}", "dim"), shown, sep="")
        return
    line = Table.grid()
    line.add_column(width=width, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(Text(label, "dim"), shown)
    Console(highlight=False).print(line)


def stderr_console() -> Console:
    """Make a console on stderr that wraps long lines between words on a terminal, and leaves them whole elsewhere."""
    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def print_error(*lines: str) -> None:
    """Print error lines to stderr."""
    for line in lines:
        stderr_console().print(Text(f"semel: {visible(name_command(line))}", "red"))


def print_remark(line: str) -> None:
    """Print a remark to stderr, so that stdout holds only the result."""
    stderr_console().print(Text(visible(name_command(line)), "dim"))


def print_json(value: Any) -> None:
    print(escape_json(json.dumps(value, ensure_ascii=False, indent=2)))


def print_table(
    headings: Sequence[str], table_rows: Iterable[Sequence[object]], empty: str, wrapped_columns: Collection[str] = ()
) -> None:
    """Print a table, one row per line. If there are no rows, `empty` is printed to stderr.

    `wrapped_columns`: the headings of columns that people copy from; they shrink last, and are wrapped instead of cut.
    On a terminal, a column without any content is left out.
    """
    cells_of_rows = [["" if cell is None else str(cell) for cell in line] for line in table_rows]
    if not cells_of_rows:
        print_remark(empty)
    elif not sys.stdout.isatty():
        for line in cells_of_rows:
            print("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in line))
    else:
        terminal = Console(highlight=False)
        rich_table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        used = [column for column in range(len(headings)) if any(line[column] for line in cells_of_rows)]
        headings = [headings[column] for column in used]
        cells = [[_style_cell(line[column]) for column in used] for line in cells_of_rows]
        widths = [max(cell_len(h), *(row[column].cell_len for row in cells)) for column, h in enumerate(headings)]
        is_wrapped = [heading in wrapped_columns for heading in headings]
        for heading, width, wrap in zip(
            headings, fit_columns(widths, is_wrapped, terminal.width), is_wrapped, strict=True
        ):
            rich_table.add_column(heading, width=width, no_wrap=not wrap, overflow="fold" if wrap else "ellipsis")
        for row in cells:
            rich_table.add_row(*row)
        terminal.print(rich_table)


def fit_columns(wanted: Sequence[int], is_wrapped: Sequence[bool], available: int) -> list[int]:
    """Return the widths of columns that fit into `available` cells, with two blanks between columns.

    `wanted`: the widths that they need. The widest column shrinks first, wrapped ones after the others; none becomes
    unreadable while another one can still give way.
    """
    widths = [min(width, available) for width in wanted]
    excess = sum(widths) + 2 * (len(widths) - 1) - available
    for wrapped, min_width in ((False, 10), (True, 16), (False, 5), (True, 8), (False, 1), (True, 1)):
        candidates = [column for column, wrap in enumerate(is_wrapped) if wrap is wrapped]
        while excess > 0 and candidates and widths[widest := max(candidates, key=lambda at: widths[at])] > min_width:
            widths[widest] -= 1
            excess -= 1
    return widths


def _style_cell(cell: str) -> Text:
    return Text(visible(" ".join(cell.split())), style=STATE_STYLES.get(cell, ""))


def count_of(number: int, one: str, many: str) -> str:
    """Return a number with its noun, such as "1 process"."""
    return f"{number} {one if number == 1 else many}"


def escape_text(text: str) -> str:
    """Prepare untrusted text for stdout: unchanged in a pipe, with control characters made visible on a terminal."""
    return visible(text) if sys.stdout.isatty() else text


def style_state(word: str) -> Text:
    return Text(word, style=STATE_STYLES.get(word, ""))


def format_time(ms: int | float | None, zone: str | None = None) -> str:
    """Format milliseconds since the epoch as a time, without the date if it is today. Returns "" for `None`.

    `zone`: the name of the time zone; None for the local one. Raises BadSchedule for a zone that is not known.
    """
    if ms is None:
        return ""
    tz = None  # the local one
    if zone is not None:
        from semel.gateway.clock import find_zone

        tz = find_zone(zone)
    moment = datetime.fromtimestamp(ms / 1000, UTC).astimezone(tz)
    is_today = moment.date() == datetime.now(moment.tzinfo).date()
    return moment.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S")
