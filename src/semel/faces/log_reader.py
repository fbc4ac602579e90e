"""Read the gateway's log file (`semel.faces.log`): its last lines, and those that are added from now on."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from semel.faces.log import KEPT_LOGS, LOG_FOLDER, LOG_NAME
from semel.text.json_types import Json

POLL_INTERVAL_S = 0.25
LEVELS = ("info", "warning", "error", "critical")


@dataclass(frozen=True)
class LogFilter:
    """Chooses the lines that have all the given values.

    `session`: a session's key, or a pattern with * and ? that keys fit.
    `level`: the lowest level that is chosen. `since`: the oldest time that is chosen, in seconds since the epoch.
    """

    session: str | None = None
    turn: int | None = None
    part: int | None = None
    level: str | None = None
    since: float | None = None

    def accepts(self, line: Json) -> bool:
        if self.session is not None and not fnmatchcase(str(line.get("session", "")), self.session):
            return False
        required = {"turn": self.turn, "part": self.part}
        if any(line.get(name) != value for name, value in required.items() if value is not None):
            return False
        if self.since is not None and _read_time(line.get("timestamp")) < self.since:
            return False
        return self.level is None or _level_number(line.get("level")) >= _level_number(self.level)


def _read_time(timestamp: object) -> float:
    """Return the time of a line in seconds since the epoch; 0 if it has none."""
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except ValueError:
        return 0.0


def _level_number(level: object) -> int:
    return logging.getLevelNamesMapping().get(str(level).upper(), logging.INFO)


def list_log_files(data_dir: Path) -> list[Path]:
    """Return the files of the log, oldest first; empty if there is none."""
    newest = data_dir / LOG_FOLDER / LOG_NAME
    older = [newest.with_name(f"{LOG_NAME}.{number}") for number in range(KEPT_LOGS, 0, -1)]
    return [path for path in (*older, newest) if path.is_file()]


def read_log(data_dir: Path, number: int, log_filter: LogFilter, *, is_followed: bool = False) -> Iterator[Json]:
    """Yield the last `number` lines that the filter accepts, oldest first.

    If `is_followed`, wait for lines that are added, and never end. After a rotation, reading goes on with the new file.
    Raises OSError.
    """
    lines: deque[Json] = deque(maxlen=number)
    *older, newest = list_log_files(data_dir) or [data_dir / LOG_FOLDER / LOG_NAME]
    for path in older:
        with _open_log(path) as file:
            lines.extend(_LineReader(file).read_lines(log_filter))
    with _open_log(newest) as file:
        reader = _LineReader(file)
        lines.extend(reader.read_lines(log_filter))
        yield from lines
        if is_followed:
            yield from _read_until_rotated(reader, newest, log_filter)
    while is_followed:
        with _open_log(newest) as file:
            yield from _read_until_rotated(_LineReader(file), newest, log_filter)


def _open_log(path: Path) -> IO[str]:
    return path.open(encoding="utf-8", errors="replace")


class _LineReader:
    """Reads the complete lines of a file to which another process appends."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file
        self._unfinished = ""

    def read_lines(self, log_filter: LogFilter) -> Iterator[Json]:
        """Yield the lines that the filter accepts, up to the present end of the file."""
        while text := self.file.readline():
            self._unfinished += text
            if not self._unfinished.endswith("\n"):
                continue
            line, self._unfinished = _parse_line(self._unfinished), ""
            if line is not None and log_filter.accepts(line):
                yield line


def _read_until_rotated(reader: _LineReader, path: Path, log_filter: LogFilter) -> Iterator[Json]:
    while True:
        is_last = not _is_open_as(reader.file, path)  # if it is rotated now, nothing is added after it is read again
        yield from reader.read_lines(log_filter)
        if is_last:
            return
        time.sleep(POLL_INTERVAL_S)


def _is_open_as(file: IO[str], path: Path) -> bool:
    """Whether the open file still has this path. True while the path is missing, in the middle of a rotation."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return True


def _parse_line(text: str) -> Json | None:
    """Parse a line of the log. Return None if it is not valid, for example because a full disk cut it off."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
