"""Run the commands of a model agent: the shell tool, and the search tool's ripgrep or grep.

Each command gets a process group of its own, which is killed when the command exits, when the turn is cancelled, when
the time limit is reached, and when the gateway dies (`acp/process.py`). Commands see the same filtered environment as
an agent process, without Semel's secrets.
"""

from __future__ import annotations

import asyncio
import codecs
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from semel.agents.acp.pipes import PipeReader
from semel.agents.acp.process import GuardedProcess

MAX_SHOWN_CHARS = 1 << 20  # how much output people see; further characters are counted only
HEAD, TAIL = 16_000, 8_000  # how many characters of the output's beginning and end the model reads
DRAIN_TIMEOUT_S = 1.0  # how long to read the output that is still in the pipe after the exit

OnOutput = Callable[[str], None]


@dataclass(frozen=True)
class CommandResult:
    """The result of a command.

    `ending`: how it ended, in words. `output`: its output for the model; of a long output, the beginning and the end,
    with the number of characters left out between them.
    """

    code: int | None  # `None` if it was killed at its time limit
    ending: str
    output: str


class CommandOutput:
    """A command's output: decode it, pass it to `tell`, and keep its beginning and end for the model."""

    def __init__(self, tell: OnOutput) -> None:
        self._tell = tell
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = ""
        self.size = 0

    def add(self, data: bytes, *, final: bool = False) -> None:
        text = self._decoder.decode(data, final)
        if not text:
            return
        shown = text[: max(0, MAX_SHOWN_CHARS - self.size)]
        self.size += len(text)
        if shown:
            self._tell(shown)
        room = max(0, HEAD - len(self._head))
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-TAIL:]

    def finish(self) -> str:
        """Finish decoding.

        Return the text for the model. If people did not see all output, pass `tell` a note about that.
        """
        self.add(b"", final=True)
        if self.size > MAX_SHOWN_CHARS:
            self._tell(f"\n[{self.size - MAX_SHOWN_CHARS} characters more were not kept]\n")
        gap = self.size - len(self._head) - len(self._tail)
        return f"{self._head}\n[{gap} characters left out]\n{self._tail}" if gap else self._head + self._tail


async def run_command(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], tell: OnOutput, timeout_s: float
) -> CommandResult:
    """Run a command, and return its result. Its whole process group is killed at the end.

    `tell`: gets the output in pieces. `timeout_s`: seconds after which the command is killed. It is also killed if this
    task is cancelled. Raises OSError if it cannot be started.
    """
    output = CommandOutput(tell)
    closed = asyncio.Event()
    process = await GuardedProcess.start(command, cwd=cwd, env=env, on_start=_record_nothing, log=lambda line: None)
    reader = PipeReader(process.stdout, output.add, closed.set)
    process.writer.close()  # a command that reads its stdin gets end-of-file
    try:
        has_exited = await process.wait_for_exit(timeout_s)
        if has_exited:
            try:
                async with asyncio.timeout(DRAIN_TIMEOUT_S):
                    await closed.wait()
            except TimeoutError:
                pass  # a background process holds the pipe; it is killed with the group below
    finally:
        process.kill()
        reader.close()
        await process.end(0.0)
    code = process.code if has_exited else None
    ending = process.describe_end() if has_exited else f"was ended: it took longer than {timeout_s:g} s"
    return CommandResult(code, ending, output.finish())


async def _record_nothing(pid: int, pgid: int, born: str) -> None:
    """Do nothing.

    A command needs no spawn row: its tool call is recorded, and its guard kills it if the gateway dies.
    """


def build_shell_command(command: str) -> list[str]:
    """Return the argv that runs a command line in bash (or else sh), with stderr merged into stdout."""
    program = shutil.which("bash") or "/bin/sh"
    return [program, "-c", f"exec 2>&1\n{command}"]


def build_search_command(pattern: str, relative_path: str) -> list[str]:
    """Return the argv that searches a file or directory for a regular expression: with ripgrep if installed, else grep.

    `relative_path`: the file or directory, relative to the workspace.
    """
    if program := shutil.which("rg"):
        return [program, "--line-number", "--no-heading", "--color=never", "--max-columns=400",
                "--max-count=200", "--with-filename", "--regexp", pattern, "--", relative_path]  # fmt: skip
    return [
        shutil.which("grep") or "grep",
        "-rnIEHs",
        "--exclude-dir=.git",
        "-m",
        "200",
        "-e",
        pattern,
        "--",
        relative_path,
    ]
