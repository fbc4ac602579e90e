"""Samples: code blocks of README.md and docs/ with lines that begin with "$ ". They are run, and their output written.

`make samples` writes what the commands print now. The commands of a page run in order, in a home of their own, with a
gateway that serves the demo agent. A comment in front of a block may hold commands that the page does not show:

    <!-- first:
    semel say main hello --wait
    -->

A block after a comment that says which other test produces it is left to that test.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
WIDTH = 116  # columns of the terminal: a line fits into a page, indented by four
PAGES = sorted((ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
TIMEOUT_S = 60.0  # for one command; other work may share the machine
PROGRAMS = ("sh", "cat", "chmod", "curl", "grep", "head", "mkdir", "printf", "sleep", "tail")
ADDRESS = "127.0.0.1:8420"
START_SCREEN_END = "Ctrl-C ends it."

LOG_LINE = r"^(\x1b\[\d+m)?\d\d:\d\d:\d\d\b.*\n"
"""A line of the log, which goes to stderr beside the start screen; samples have the screen alone."""

VARYING = (
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?", "TIME"),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\b\d{4}-\d\d-\d\d\b", "DAY"),
    (r"\b[0-9a-f]{10,}\b", "HEX"),
    (r"\b[0-9.]+ (s|ms|MB|GB)\b", r"N \1"),
    (r"\be\d+\b|(?<=\"event\":)\d+", "EVENT"),
    (r"(?<=\S)\n {5,}(?=\S)", " "),  # a text is wrapped by how long such things are
    (r" +", " "),  # columns that are as wide as what they hold
)
"""What differs from run to run: (pattern, what stands for it when samples are compared)."""


@dataclass
class Sample:
    """A code block. `lines`: where its text is in the page, without fences; `setup`: commands that are not shown."""

    lines: tuple[int, int]
    indent: str
    text: str
    setup: list[str]

    def commands(self) -> list[str]:
        """The commands as they are written, continued lines included."""
        return re.findall(r"^\$ (.*(?:(?<=\\)\n.*)*)", self.text, re.M)


def read_samples(page: str) -> list[Sample]:
    if "$ " not in page:
        return []  # parsing Markdown is slow, and most pages have no sample
    samples, setup, lines, is_elsewhere = [], [], page.splitlines(), False
    for token in MarkdownIt("commonmark").parse(page):
        if token.type == "html_block" and (hidden := re.fullmatch(r"<!-- first:\n(.*)-->\n?", token.content, re.S)):
            setup += hidden[1].splitlines()
        elif token.type == "html_block":
            is_elsewhere = "produced by tests/" in token.content
        elif not is_elsewhere and token.type in ("fence", "code_block") and re.search(r"^\$ ", token.content, re.M):
            assert token.map is not None
            begin = token.map[0] + (token.type == "fence")
            end = begin + len(token.content.splitlines())
            indent = lines[begin][: lines[begin].index("$")]
            samples.append(Sample((begin, end), indent, token.content.rstrip("\n"), setup))
            setup = []
    return samples


def run_pages(pages: dict[Path, str]) -> Iterator[tuple[Path, str]]:
    """Yield each page that has samples, with those as they are now. Pages that start no gateway share one."""
    sampled = {path: page for path, page in pages.items() if read_samples(page)}
    own = [path for path, page in sampled.items() if re.search(r"^\s*\$ semel up$|>semel\.toml", page, re.M)]
    for group in ([path for path in sampled if path not in own], *([path] for path in own)):
        with open_scratch() as scratch:
            for path in group:
                yield path, run_page(scratch, sampled[path])


def run_page(scratch: Scratch, page: str) -> str:
    lines = page.splitlines()
    outputs = [(sample, run_sample(scratch, sample)) for sample in read_samples(page)]
    for sample, text in reversed(outputs):
        begin, end = sample.lines
        lines[begin:end] = [f"{sample.indent}{line}".rstrip() for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def run_sample(scratch: Scratch, sample: Sample) -> str:
    """The sample as it is now; unchanged if only times, ids and the like differ."""
    for command in sample.setup:
        scratch.run(command)
    texts = [f"$ {command}\n{scratch.run(command)}".rstrip() for command in sample.commands()]
    spaced = "\n\n" in sample.text and len(texts) > 1
    text = ("\n\n" if spaced else "\n").join(texts)
    return text if comparable(text) != comparable(sample.text) else sample.text


def comparable(page: str) -> str:
    """The page without what differs from run to run."""
    for pattern, stand_in in VARYING:
        page = re.sub(pattern, stand_in, page)
    return page


@dataclass
class Scratch:
    """A home with a gateway that is started when a command needs it."""

    home: Path
    work: Path
    gateways: list[subprocess.Popen[bytes]] = field(default_factory=list)
    url: str = ADDRESS

    @property
    def env(self) -> dict[str, str]:
        names = {"USER": "ann", "LOGNAME": "ann", "LANG": "C.UTF-8", "TZ": "UTC"}
        terminal = {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": str(WIDTH), "LINES": "40"}
        return names | terminal | {"HOME": str(self.home), "PATH": f"{self.home}/.local/bin"}

    def run(self, command: str) -> str:
        """What a person at a terminal would see."""
        if command == "semel up":
            return self.start_gateway()
        if re.search(r"\bsemel (?!agents\b)|\bcurl\b", command) and not self.gateways:
            self.start_gateway()
        output = self._read_terminal(command.replace(ADDRESS, self.url))[0]
        return self._as_written(output)

    def start_gateway(self) -> str:
        """Start `semel up`; return its start screen, or what it says if it does not start."""
        output, process = self._read_terminal("exec semel up --listen 127.0.0.1:0", until=START_SCREEN_END)
        if process.poll() is None:
            self.gateways.append(process)
            address = re.search(r"http://(127\.0\.0\.1:\d+)", output)
            assert address, output
            self.url = address[1]
        return self._as_written(output)

    def _as_written(self, output: str) -> str:
        return output.replace(self.url, ADDRESS).replace(str(self.home), "/home/me")

    def _read_terminal(self, command: str, until: str = "") -> tuple[str, subprocess.Popen[bytes]]:
        """Run a command in a terminal. Return what it printed to its end, or up to the line with `until`."""
        terminal, side = pty.openpty()
        shell = ["/bin/sh", "-c", command]
        process = subprocess.Popen(
            shell, stdin=side, stdout=side, stderr=side, env=self.env, cwd=self.work, process_group=0
        )
        os.close(side)
        output = read_output(terminal, process, until)
        if until and until in output:
            threading.Thread(target=drain, args=(terminal,), daemon=True).start()
            output = output[: output.index(until) + len(until)] + "\n"  # more may have been read on a slow machine
        else:
            os.close(terminal)
            process.wait()
        return re.sub(LOG_LINE, "", output, flags=re.M), process


def read_output(terminal: int, process: subprocess.Popen[bytes], until: str) -> str:
    """What a process prints until its end, or at least until it has printed `until`. A process that hangs is killed."""
    watchdog = threading.Timer(TIMEOUT_S, process.kill)
    watchdog.start()
    printed = bytearray()
    while not (until and until.encode() in printed) and (data := read_some(terminal)):
        printed += data
    watchdog.cancel()
    return printed.decode().replace("\r\n", "\n")


def read_some(terminal: int) -> bytes:
    """What comes next from a terminal; b"" at its end."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux: nobody has the other side any more
        return b""


def drain(terminal: int) -> None:
    while read_some(terminal):
        pass
    os.close(terminal)


@contextmanager
def open_scratch() -> Iterator[Scratch]:
    with tempfile.TemporaryDirectory(prefix="semel-samples-") as folder:
        home = Path(folder)
        programs = home / ".local" / "bin"
        programs.mkdir(parents=True)
        for name in PROGRAMS:
            if (path := shutil.which(name)) is not None:
                (programs / name).symlink_to(path)
        (programs / "semel").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m semel "$@"\n')
        (programs / "semel").chmod(0o755)
        work = home / "work"
        work.mkdir()
        scratch = Scratch(home, work)
        try:
            yield scratch
        finally:
            for process in scratch.gateways:
                process.send_signal(signal.SIGTERM)
            for process in scratch.gateways:
                process.wait(TIMEOUT_S)


if __name__ == "__main__":
    before = {path: path.read_text(encoding="utf-8") for path in PAGES}
    for path, page in run_pages(before):
        is_changed = comparable(page) != comparable(before[path])
        if is_changed:
            path.write_text(page, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: its samples {'are written anew' if is_changed else 'hold'}", flush=True)
