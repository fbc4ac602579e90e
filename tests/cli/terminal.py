"""A command on a terminal of its own (a pseudo-terminal), as a person uses it: read what it prints, type an answer."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from python_process import start_python

PATIENCE = 60.0  # seconds: other work may share the machine
INTERRUPT_INTERVAL_S = 5.0  # between two presses of Ctrl-C


class Terminal:
    """`said` is everything that was printed so far."""

    def __init__(self, args: tuple[str, ...], env: dict[str, str], cwd: Path, columns: int = 100, rows: int = 40):
        self.said = ""
        self._seen = 0
        self._is_over = False
        self._file, side = pty.openpty()
        self._process = start_python(
            *("-m", "semel", *args),
            env={**env, "COLUMNS": str(columns), "LINES": str(rows), "TERM": "xterm"},
            cwd=cwd, stdin=side, stdout=side, stderr=side, interruptible=True, on_terminal=True,
        )  # fmt: skip
        os.close(side)

    def expect(self, text: str) -> str:
        """Wait until the text was printed after the last one that was expected. Returns what came before its end."""
        end = time.monotonic() + PATIENCE
        while (at := self.said.find(text, self._seen)) < 0:
            assert time.monotonic() < end and self._read(), f"{text!r} did not come: {self.said[self._seen :]}"
        before, self._seen = self.said[self._seen : at + len(text)], at + len(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._file, f"{text}\r".encode())

    def answer(self, question: str, text: str = "") -> None:
        self.expect(question)
        self.type(text)

    def answer_unseen(self, question: str, text: str) -> None:
        """Answer a question once the terminal shows no input: what was typed before that is thrown away."""
        self.expect(question)
        end = time.monotonic() + PATIENCE
        while termios.tcgetattr(self._file)[3] & termios.ECHO:
            assert time.monotonic() < end, "the terminal still shows what is typed"
            time.sleep(0.02)
        self.type(text)

    def interrupt(self) -> None:
        os.write(self._file, b"\x03")

    def interrupt_until_over(self) -> int:
        """Press Ctrl-C until the command says that it was aborted: Python does not see one just before it reads.

        One that it does see is given time: a second one while Python ends would end it by the signal. Returns the exit
        code."""
        end = time.monotonic() + PATIENCE
        pressed = 0.0
        while self._read():
            assert time.monotonic() < end, f"it does not end: {self.said[self._seen :]}"
            if "aborted" not in self.said[self._seen :] and time.monotonic() - pressed > INTERRUPT_INTERVAL_S:
                self.interrupt()
                pressed = time.monotonic()
        return self.wait()

    def wait(self) -> int:
        """Read to the end. Returns the exit code."""
        end = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < end, f"it does not end: {self.said[self._seen :]}"
        self._is_over = True
        os.close(self._file)
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        if not self._is_over:
            self._process.kill()
            os.close(self._file)
            self._process.wait(PATIENCE)

    def _read(self) -> bool:
        """Read what is there, for a moment. Returns whether more may come."""
        if not select.select([self._file], [], [], 0.2)[0]:
            return True
        try:
            got = os.read(self._file, 65536)
        except OSError:  # the other side of the terminal is closed
            return False
        self.said += got.decode(errors="replace").replace("\r\n", "\n")
        return bool(got)


@contextlib.contextmanager
def semel(*args: str, env: dict[str, str], cwd: Path, **options: Any) -> Iterator[Terminal]:
    """`semel ...` on a terminal. It does not outlive the block."""
    terminal = Terminal(args, env, cwd, **options)
    try:
        yield terminal
    finally:
        terminal.kill()
