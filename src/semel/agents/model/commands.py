"""Run the commands of a model agent: the shell tool, and the search tool's ripgrep or grep.

Each command gets a process group of its own, which is killed when the command exits, when the turn is cancelled, when
the time limit is reached, and when the gateway dies (`acp/guard.py`). Commands see the same filtered environment as an
agent process, without Semel's secrets.
"""

from __future__ import annotations

import asyncio
import codecs
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from semel.agents.acp.pipes import StdoutReader
from semel.agents.acp.process import GuardedProcess

MAX_SHOWN_CHARS = 1 << 20  # of output that people see; the rest is counted
HEAD, TAIL = 16_000, 8_000  # characters of the output that the model reads
DRAIN_TIMEOUT_S = 1.0  # seconds for output that is still in the pipe after the exit

Tell = Callable[[str], None]


@dataclass(frozen=True)
class CommandResult:
    """How a command ended, and what the model reads of its output: head and tail, with the gap stated."""

    code: int | None  # `None` if it was killed at its time limit
    how: str
    output: str


class CommandOutput:
    """Decodes a command's output, streams it to `tell`, and keeps its head and tail for the model. Bounded."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = ""
        self.size = 0

    def take(self, data: bytes, *, final: bool = False) -> None:
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

    def end(self) -> str:
        """Finish decoding; returns the text for the model, and streams a note if people did not see everything."""
        self.take(b"", final=True)
        if self.size > MAX_SHOWN_CHARS:
            self._tell(f"\n[{self.size - MAX_SHOWN_CHARS} characters more were not kept]\n")
        gap = self.size - len(self._head) - len(self._tail)
        return f"{self._head}\n[{gap} characters left out]\n{self._tail}" if gap else self._head + self._tail


async def run_command(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], tell: Tell, within: float
) -> CommandResult:
    """Run a command for at most `within` seconds; then, or on cancellation, its group is killed. Raises OSError."""
    output = CommandOutput(tell)
    closed = asyncio.Event()
    process = await GuardedProcess.start(command, cwd=cwd, env=env, on_start=_record_nothing, log=lambda line: None)
    reader = StdoutReader(process.stdout, output.take, closed.set)
    process.writer.close()  # a command that reads its stdin gets end-of-file
    try:
        ended = await process.exited(within)
        if ended:
            try:
                async with asyncio.timeout(DRAIN_TIMEOUT_S):
                    await closed.wait()
            except TimeoutError:
                pass  # a background process holds the pipe; it is killed with the group below
    finally:
        process.kill()
        reader.close()
        await process.end(0.0)
    code = process.code if ended else None
    how = process.how_it_ended() if ended else f"was ended: it took longer than {within:g} s"
    return CommandResult(code, how, output.end())


async def _record_nothing(pid: int, pgid: int, born: str) -> None:
    """Record no spawn: the tool call is the record, and the guard kills the group with the gateway (Law 10)."""


def build_shell_command(command: str) -> list[str]:
    """The argv that runs a command line in bash (else sh), with stderr merged into stdout."""
    program = shutil.which("bash") or "/bin/sh"
    return [program, "-c", f"exec 2>&1\n{command}"]


def build_search_command(pattern: str, root: Path, where: str) -> list[str]:
    """The argv of a regular expression search: ripgrep if installed, else grep."""
    if program := shutil.which("rg"):
        return [program, "--line-number", "--no-heading", "--color=never", "--max-columns=400",
                "--max-count=200", "--with-filename", "--regexp", pattern, "--", where]  # fmt: skip
    return [shutil.which("grep") or "grep", "-rnIEHs", "--exclude-dir=.git", "-m", "200", "-e", pattern, "--", where]
