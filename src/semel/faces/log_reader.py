"""Read the gateway's log file (`semel.faces.log`): its last lines, and those that are added from now on."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from semel.faces.log import KEPT_LOGS, LOG_FOLDER, LOG_NAME
from semel.text.json_types import Json

POLL_INTERVAL_S = 0.25
LEVELS = ("info", "warning", "error", "critical")


@dataclass(frozen=True)
class LogFilter:
    """Which lines are wanted: those with all the given values. `level`: the lowest one."""

    session: str | None = None
    turn: int | None = None
    part: int | None = None
    level: str | None = None

    def accepts(self, line: Json) -> bool:
        wanted = {"session": self.session, "turn": self.turn, "part": self.part}
        if any(line.get(name) != value for name, value in wanted.items() if value is not None):
            return False
        return self.level is None or _level_number(line.get("level")) >= _level_number(self.level)


def _level_number(level: object) -> int:
    return logging.getLevelNamesMapping().get(str(level).upper(), logging.INFO)


def list_log_files(data_dir: Path) -> list[Path]:
    """Return the files of the log, oldest first; empty if there is none."""
    newest = data_dir / LOG_FOLDER / LOG_NAME
    older = [newest.with_name(f"{LOG_NAME}.{number}") for number in range(KEPT_LOGS, 0, -1)]
    return [path for path in (*older, newest) if path.is_file()]


def read_log(data_dir: Path, number: int, wanted: LogFilter, *, is_followed: bool = False) -> Iterator[Json]:
    """Yield the last `number` lines that are wanted, oldest first; then, if it is followed, those that are added.

    A followed log never ends. After a rotation, reading goes on with the new file. Raises OSError.
    """
    lines: deque[Json] = deque(maxlen=number)
    *older, newest = list_log_files(data_dir) or [data_dir / LOG_FOLDER / LOG_NAME]
    for path in older:
        with _open(path) as file:
            lines.extend(_LineReader(file).read_lines(wanted))
    with _open(newest) as file:
        reader = _LineReader(file)
        lines.extend(reader.read_lines(wanted))
        yield from lines
        if is_followed:
            yield from _read_until_rotated(reader, newest, wanted)
    while is_followed:
        with _open(newest) as file:
            yield from _read_until_rotated(_LineReader(file), newest, wanted)


def _open(path: Path) -> IO[str]:
    return path.open(encoding="utf-8", errors="replace")


class _LineReader:
    """Reads the complete lines of a file to which another process appends."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file
        self._unfinished = ""

    def read_lines(self, wanted: LogFilter) -> Iterator[Json]:
        """Yield the wanted lines up to the present end of the file."""
        while text := self.file.readline():
            self._unfinished += text
            if not self._unfinished.endswith("\n"):
                continue
            line, self._unfinished = _parse(self._unfinished), ""
            if line is not None and wanted.accepts(line):
                yield line


def _read_until_rotated(reader: _LineReader, path: Path, wanted: LogFilter) -> Iterator[Json]:
    while True:
        is_last = not _is_open_as(reader.file, path)  # if it is rotated now, nothing is added after it is read again
        yield from reader.read_lines(wanted)
        if is_last:
            return
        time.sleep(POLL_INTERVAL_S)


def _is_open_as(file: IO[str], path: Path) -> bool:
    """Whether the open file still has this path. True while the path is missing, in the middle of a rotation."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return True


def _parse(text: str) -> Json | None:
    """Return a line of the log; None for what is none, such as a line that a full disk cut off."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
