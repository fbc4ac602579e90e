"""A tool call's output as a terminal would show it. The output itself keeps every character."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")
_ERASE = re.compile(r"\x1b\[([012]?)K\Z")


def display(text: str) -> str:
    """Carriage returns with their terminal meaning: what comes after one is written over the line.

    Escape sequences take no room and stay (colours); "erase in line" does its work. A line without a carriage
    return is not touched.
    """
    if "\r" not in text:
        return text
    return "\n".join(_line(line) if "\r" in line else line for line in text.split("\n"))


def _line(line: str) -> str:
    line = line.rstrip("\r")
    if "\r" not in line:
        return line
    cells: list[str] = []
    for run in line.split("\r"):
        _write(cells, run)
    return "".join(cells)


def _write(cells: list[str], run: str) -> None:
    """Write one run over the cells from the left. An escape sequence rides on the cell after it."""
    at, place, riding = 0, 0, ""
    while at < len(run):
        escape = _ESCAPE.match(run, at) if run[at] == "\x1b" else None
        if escape is not None:
            erase = _ERASE.match(escape[0])
            if erase is None:
                riding += escape[0]
            elif erase[1] in ("", "0"):
                del cells[place:]
            else:
                cells[:] = [" "] * place
                if erase[1] == "2" and place == 0:
                    cells.clear()
            at = escape.end()
            continue
        _put(cells, place, riding + run[at])
        at, place, riding = at + 1, place + 1, ""
    if riding:
        if place:
            cells[place - 1] += riding
        else:
            cells.insert(0, riding)


def _put(cells: list[str], place: int, cell: str) -> None:
    if place < len(cells):
        cells[place] = cell
    else:
        cells.append(cell)
