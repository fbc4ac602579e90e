"""Keep what signal-cli hands over in files, and read it from there.

signal-cli forgets a message as soon as it has written it to its standard output. Therefore that output is a file, the
journal, which outlives the gateway. It is read by position, and the position is saved with the events (Law 1). A
file grows while signal-cli runs; once it is large, the next run begins a new one. Files are removed when everything in
them is in the ledger.

A line that a dying signal-cli left unfinished is ended by the next run, so that it can be told from the next line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 16_000_000
"""Size of a journal file above which signal-cli is started anew, and begins another one."""
READ_BYTES = 1_000_000
_NAME = re.compile(r"journal-([0-9]{1,12})\.jsonl")


@dataclass(frozen=True, order=True)
class JournalPosition:
    """A place between two lines. `file`: the number of the file. `offset`: in bytes."""

    file: int
    offset: int


@dataclass(frozen=True)
class JournalLine:
    """A line without its end. `after`: the position after it."""

    text: bytes
    after: JournalPosition


class Journal:
    """The journal in one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<Journal in {self.folder}>"

    def open_for_append(self) -> int:
        """Open the newest file, or a new one if that is large. Returns a file descriptor to append to. Raises OSError.

        The directory is made if it is missing; only we can read it.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = max(self._list_files(), default=1)
        if self._measure_file(number) > MAX_FILE_BYTES:
            number += 1
        descriptor = os.open(self._find_path(number), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            os.write(descriptor, b"\n")
        return descriptor

    def find_end(self) -> JournalPosition:
        """Return the position after everything that was written so far."""
        number = max(self._list_files(), default=1)
        return JournalPosition(number, self._measure_file(number))

    def find_start(self, position: JournalPosition) -> JournalPosition:
        """Return where to read on from a saved position: the position, or the beginning of what is still there."""
        files = self._list_files()
        if position.file in files and position.offset <= self._measure_file(position.file):
            return position
        later = [number for number in files if number > position.file]
        return JournalPosition(min(later or files or [1]), 0)

    def read_lines(self, position: JournalPosition) -> Sequence[JournalLine]:
        """Return the next whole lines after a position; [] if there are no more. Raises OSError."""
        while True:
            lines = self._read_file(position)
            if lines:
                return lines
            later = [number for number in self._list_files() if number > position.file]
            if not later:
                return []
            position = JournalPosition(min(later), 0)

    def _read_file(self, position: JournalPosition) -> Sequence[JournalLine]:
        content = bytearray()
        try:
            with self._find_path(position.file).open("rb") as file:
                file.seek(position.offset)
                while (part := file.read(READ_BYTES)) and b"\n" not in part:
                    content += part
                content += part
        except FileNotFoundError:
            return []
        lines, offset = [], position.offset
        for text in bytes(content).split(b"\n")[:-1]:
            offset += len(text) + 1
            lines.append(JournalLine(text.strip(), JournalPosition(position.file, offset)))
        return lines

    def is_grown(self, position: JournalPosition) -> bool:
        """Return whether there may be something after a position: in its file, or in a next one."""
        return self._measure_file(position.file) > position.offset or self._find_path(position.file + 1).exists()

    def is_full(self, position: JournalPosition) -> bool:
        """Return whether everything before a position is large enough for a new file."""
        return position.offset > MAX_FILE_BYTES

    def forget_before(self, position: JournalPosition) -> None:
        """Remove the files before that of a position."""
        for number in self._list_files():
            if number < position.file:
                self._find_path(number).unlink(missing_ok=True)

    def _find_path(self, number: int) -> Path:
        return self.folder / f"journal-{number}.jsonl"

    def _list_files(self) -> list[int]:
        try:
            names = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def _measure_file(self, number: int) -> int:
        try:
            return self._find_path(number).stat().st_size
        except FileNotFoundError:
            return 0
