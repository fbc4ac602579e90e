"""Render a tool call's output as a terminal would show it, for all faces.

A carriage return or backspace moves back in the line, and the following text overwrites it; "erase in line" and cursor
movements within the line are applied. Colours and all other escape sequences are removed, including those that move the
cursor to other lines: only the current line can change. The ledger keeps every character of the output.
"""

from __future__ import annotations

import re

LONGEST = 8192
"""How many characters of a line can still change; older ones are final. This keeps the cost linear (Law 11)."""

_STOP = re.compile(r"[\r\n\x08\x1b]")
_ESCAPE = re.compile(
    r"\x1b(?:\[(?P<given>[0-?]{0,64})[ -/]{0,8}(?P<final>[@-~])|\][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)"
    r"|[()*+][0-9A-Za-z]|[^\[\]()*+])",
    re.DOTALL,
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|\][^\x07\x1b]{0,2048}\x1b?|[()*+])?\Z")


def display(text: str) -> str:
    """A whole output, displayed."""
    return Display().feed(text)[1] if _STOP.search(text) else text


class Display:
    """A growing output. The result does not depend on how the text is cut into chunks."""

    def __init__(self) -> None:
        self._settled = 0  # characters that cannot change any more
        self._line = ""
        self._column = 0
        self._cut = ""  # an incomplete escape sequence at the end of the last chunk

    def __repr__(self) -> str:
        return f"<Display {self._settled}+{len(self._line)} characters, column {self._column}>"

    def feed(self, text: str) -> tuple[int, str]:
        """Append output. Returns (how many displayed characters stay, the text that follows them now)."""
        before, settled = self._line, list[str]()
        first = self._settled
        text, self._cut = self._cut + text, ""
        at = 0
        while at < len(text):
            stop = _STOP.search(text, at)
            end = stop.start() if stop else len(text)
            self._write(text[at:end], settled)
            if stop is None:
                break
            at = self._control(text, end, settled)
        shown = "".join((*settled, self._line))
        same = _common(before, shown)
        return first + same, shown[same:]

    def _write(self, run: str, settled: list[str]) -> None:
        if not run:
            return
        line, column = self._line, self._column
        self._line = line[:column] + run + line[column + len(run) :]
        self._column += len(run)
        while len(self._line) > LONGEST and self._column >= LONGEST:
            self._settle(self._line[:LONGEST], settled)
            self._line, self._column = self._line[LONGEST:], self._column - LONGEST

    def _settle(self, text: str, settled: list[str]) -> None:
        settled.append(text)
        self._settled += len(text)

    def _control(self, text: str, at: int, settled: list[str]) -> int:
        """Apply the control character or escape sequence at `at`; return the index after it."""
        match text[at]:
            case "\r":
                self._column = 0
            case "\x08":
                self._column = max(0, self._column - 1)
            case "\n":
                self._settle(self._line + "\n", settled)
                self._line, self._column = "", 0
            case _:
                return self._escape(text, at, settled)
        return at + 1

    def _escape(self, text: str, at: int, settled: list[str]) -> int:
        if found := _ESCAPE.match(text, at):
            self._obey(found["given"] or "", found["final"])
            return found.end()
        if _UNFINISHED.match(text, at):
            self._cut = text[at:]
            return len(text)
        self._write("\x1b", settled)  # no escape sequence: it is shown
        return at + 1

    def _obey(self, given: str, final: str | None) -> None:
        number = int(given) if given.isascii() and given.isdigit() and len(given) < 6 else None
        match final:
            case "K" if number in (None, 0):
                self._line = self._line[: self._column]
            case "K" if number in (1, 2):
                rest = self._line[self._column :] if number == 1 else ""
                self._line = " " * min(self._column, len(self._line)) + rest if self._column else rest
            case "D":
                self._column = max(0, self._column - (number or 1))
            case "C":
                self._column = min(len(self._line), self._column + (number or 1))
            case "G":
                self._column = min(len(self._line), max(0, (number or 1) - 1))


def _common(before: str, after: str) -> int:
    """How many characters both begin with."""
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
