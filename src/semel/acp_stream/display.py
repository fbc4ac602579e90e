"""Render a tool call's output as a terminal would show it, for every user interface.

A carriage return or backspace moves back in the line, and the text after it overwrites the line there. "Erase in line"
and cursor movements within the line are applied. Colours and all other escape sequences are removed, including those
that move the cursor to other lines: only the current line can change. The ledger keeps every character of the output.
"""

from __future__ import annotations

import re
from itertools import groupby

MAX_MUTABLE_CHARS = 8192
"""How many characters of a line can still change; older ones are final. This keeps the cost linear (Law 11)."""

SGR = re.compile(r"\x1b\[[0-9;:]*m")
"""A sequence that sets colours or weight."""

RESET = "\x1b[0m"
MAX_ACTIVE_SEQUENCES = 8
"""Most colour sequences kept for a character; older ones are dropped."""

MAX_COLOUR_SETS = 50_000  # in a line; further ones share the last marker
_FIRST_MARKER = 0xF0000  # of a private plane
_RESETS = (RESET, "\x1b[m")

_STOP = re.compile(r"[\r\n\x08\x1b]")
_ESCAPE = re.compile(
    r"\x1b(?:\[(?P<given>[0-?]{0,64})[ -/]{0,8}(?P<final>[@-~])|\][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)"
    r"|[()*+][0-9A-Za-z]|[^\[\]()*+])",
    re.DOTALL,
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|\][^\x07\x1b]{0,2048}\x1b?|[()*+])?\Z")


Colours = tuple[str, ...]
"""The sequences that are in force, since the last that ends all others."""


def render_terminal(text: str) -> str:
    """Return a complete output as a terminal would show it."""
    return Display().feed(text)[1] if _STOP.search(text) else text


def render_coloured(text: str) -> str:
    """Return a complete output as a terminal would show it, with the sequences that set colours and weight (SGR).

    In a line that was overwritten, each character has the colours that it was written with.
    """
    colours: Colours = ()
    shown_lines = []
    *lines, last_line = text.split("\n")
    for line in lines:
        shown, colours = _render_coloured_line(f"{line}\n", colours)
        shown_lines.append(shown)
    return "".join((*shown_lines, _render_coloured_line(last_line, colours)[0]))


def _set_colours(colours: Colours, sequence: str) -> Colours:
    if sequence in _RESETS:
        return ()
    return (*(earlier for earlier in colours if earlier != sequence), sequence)[-MAX_ACTIVE_SEQUENCES:]


def _render_coloured_line(line: str, colours: Colours) -> tuple[str, Colours]:
    """Return a line as it is shown, and the colours in force at its end. `line`: with its line feed, if it has one;
    `colours`: those at its beginning.
    """
    if not _STOP.search(SGR.sub("", re.sub(r"\r?\n\Z", "", line))):
        for sequence in SGR.findall(line):
            colours = _set_colours(colours, sequence)
        return line.replace("\r", ""), colours
    # The line is displayed twice: as it is, and with each character replaced by one that stands for its colours.
    marked_line, sequences, colours = _mark_colours(line, colours)
    pieces = []
    shown = render_terminal(line)
    end = 0
    for marker, run in groupby(render_terminal(marked_line)):
        begin, end = end, end + len(list(run))
        if marker != "\n":
            prefix = f"{RESET}{sequences.get(marker, '')}"
            pieces += [prefix, shown[begin:end].replace("\x1b", f"\x1b{prefix}")]  # a shown escape begins no sequence
    return "".join((*pieces, RESET, *colours, "\n" if line.endswith("\n") else "")), colours


def _mark_colours(line: str, colours: Colours) -> tuple[str, dict[str, str], Colours]:
    """Return the line with each shown character replaced by a marker, a character that stands for its colours; the
    sequences of each marker; and the colours in force at the end. `colours`: those at the beginning.
    """
    markers: dict[Colours, str] = {}
    pieces = []
    offset = 0
    while offset < len(line):
        stop = _STOP.search(line, offset)
        end = stop.start() if stop else len(line)
        marker = markers.setdefault(colours, chr(_FIRST_MARKER + min(len(markers), MAX_COLOUR_SETS)))
        pieces.append(marker * (end - offset))
        if stop is None:
            break
        escape = _ESCAPE.match(line, end) or _UNFINISHED.match(line, end)
        if escape is not None and SGR.fullmatch(escape[0]):
            colours = _set_colours(colours, escape[0])
        is_shown = line[end] == "\x1b" and escape is None
        pieces.append(marker if is_shown else (escape or stop)[0])
        offset = (escape or stop).end()
    return "".join(pieces), {marker: "".join(active) for active, marker in markers.items()}, colours


class Display:
    """A growing output, shown as a terminal would show it. How it is divided into chunks makes no difference."""

    def __init__(self) -> None:
        self._settled = 0  # characters that cannot change any more
        self._line = ""
        self._column = 0
        self._incomplete = ""  # an incomplete escape sequence at the end of the last chunk

    def __repr__(self) -> str:
        return f"<Display {self._settled}+{len(self._line)} characters, column {self._column}>"

    def feed(self, text: str) -> tuple[int, str]:
        """Append output. Return (how many of the displayed characters stay, the text that now follows them)."""
        before, settled = self._line, list[str]()
        settled_before = self._settled
        text, self._incomplete = self._incomplete + text, ""
        offset = 0
        while offset < len(text):
            stop = _STOP.search(text, offset)
            end = stop.start() if stop else len(text)
            self._write(text[offset:end], settled)
            if stop is None:
                break
            offset = self._control(text, end, settled)
        shown = "".join((*settled, self._line))
        same = _measure_common_prefix(before, shown)
        return settled_before + same, shown[same:]

    def _write(self, run: str, settled: list[str]) -> None:
        if not run:
            return
        line, column = self._line, self._column
        self._line = line[:column] + run + line[column + len(run) :]
        self._column += len(run)
        while len(self._line) > MAX_MUTABLE_CHARS and self._column >= MAX_MUTABLE_CHARS:
            self._settle(self._line[:MAX_MUTABLE_CHARS], settled)
            self._line, self._column = self._line[MAX_MUTABLE_CHARS:], self._column - MAX_MUTABLE_CHARS

    def _settle(self, text: str, settled: list[str]) -> None:
        settled.append(text)
        self._settled += len(text)

    def _control(self, text: str, offset: int, settled: list[str]) -> int:
        """Apply the control character or escape sequence at `offset` in `text`. Return the index after it.

        `settled`: gets the text that can no longer change.
        """
        match text[offset]:
            case "\r":
                self._column = 0
            case "\x08":
                self._column = max(0, self._column - 1)
            case "\n":
                self._settle(self._line + "\n", settled)
                self._line, self._column = "", 0
            case _:
                return self._escape(text, offset, settled)
        return offset + 1

    def _escape(self, text: str, offset: int, settled: list[str]) -> int:
        if match := _ESCAPE.match(text, offset):
            self._apply_sequence(match["given"] or "", match["final"])
            return match.end()
        if _UNFINISHED.match(text, offset):
            self._incomplete = text[offset:]
            return len(text)
        self._write("\x1b", settled)  # no escape sequence: it is shown
        return offset + 1

    def _apply_sequence(self, argument: str, final: str | None) -> None:
        number = int(argument) if argument.isascii() and argument.isdigit() and len(argument) < 6 else None
        match final:
            case "K" if number in (None, 0):
                self._line = self._line[: self._column]
            case "K" if number in (1, 2):
                tail = self._line[self._column :] if number == 1 else ""
                self._line = " " * min(self._column, len(self._line)) + tail if self._column else tail
            case "D":
                self._column = max(0, self._column - (number or 1))
            case "C":
                self._column = min(len(self._line), self._column + (number or 1))
            case "G":
                self._column = min(len(self._line), max(0, (number or 1) - 1))


def _measure_common_prefix(before: str, after: str) -> int:
    """Return the length of the longest common prefix of two texts."""
    if after.startswith(before):
        return len(before)
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
