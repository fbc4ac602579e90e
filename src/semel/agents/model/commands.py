"""Commands that a model agent runs: shell, and the one behind search.

Each is a process group of its own that ends with its command, with a cancel, with its time, and with the gateway,
however that ends. It finds in its environment what every agent finds, and none of Semel's secrets.
"""

from __future__ import annotations

import asyncio
import codecs
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from semel.agents.acp.pipes import Reader
from semel.agents.acp.process import Process

KEPT = 1 << 20  # characters of output that are kept and shown; the rest is counted
HEAD, TAIL = 16_000, 8_000  # characters of them that the model reads
DRAIN = 1.0  # seconds that output may still come after the command's end

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Ran:
    """How a command ended. `output` is its head and tail, the gap between stated."""

    code: int | None  # None: it was ended, as it took too long
    how: str
    output: str


class Output:
    """Decodes, tells and keeps what a command writes, within bounds."""

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
        shown = text[: max(0, KEPT - self.size)]
        self.size += len(text)
        if shown:
            self._tell(shown)
        room = max(0, HEAD - len(self._head))
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-TAIL:]

    def end(self) -> str:
        """What the model reads; states to the person what was not kept."""
        self.take(b"", final=True)
        if self.size > KEPT:
            self._tell(f"\n[{self.size - KEPT} characters more were not kept]\n")
        gap = self.size - len(self._head) - len(self._tail)
        return f"{self._head}\n[{gap} characters left out]\n{self._tail}" if gap else self._head + self._tail


async def run(command: Sequence[str], cwd: Path, env: Mapping[str, str], tell: Tell, within: float) -> Ran:
    """Run it to its end, at most `within` seconds. Raises OSError. A cancel kills the group."""
    output = Output(tell)
    closed = asyncio.Event()
    process = await Process.start(command, cwd=cwd, env=env, on_start=_unrecorded, log=lambda line: None)
    reader = Reader(process.stdout, output.take, closed.set)
    process.writer.close()  # whoever reads its input finds the end
    try:
        ended = await process.exited(within)
        if ended:
            try:
                async with asyncio.timeout(DRAIN):
                    await closed.wait()
            except TimeoutError:
                pass  # something it left holds the pipe; it is ended with the group
    finally:
        process.kill()
        reader.close()
        await process.end(0.0)
    code = process.code if ended else None
    how = process.how_it_ended() if ended else f"was ended: it took longer than {within:g} s"
    return Ran(code, how, output.end())


async def _unrecorded(pid: int, pgid: int, born: str) -> None:
    """Its guard ends it with the gateway (Law 10); the row is its tool call's."""


def shell(command: str) -> list[str]:
    """A command line, its errors among its output."""
    program = shutil.which("bash") or "/bin/sh"
    return [program, "-c", f"exec 2>&1\n{command}"]


def search(pattern: str, root: Path, where: str) -> list[str]:
    """The command that finds lines by a regular expression: ripgrep, or grep."""
    if program := shutil.which("rg"):
        return [program, "--line-number", "--no-heading", "--color=never", "--max-columns=400",
                "--max-count=200", "--with-filename", "--regexp", pattern, "--", where]  # fmt: skip
    return [shutil.which("grep") or "grep", "-rnIEHs", "--exclude-dir=.git", "-m", "200", "-e", pattern, "--", where]
