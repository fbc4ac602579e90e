"""The command line as people have it: real processes, a real gateway, its own home."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from python_process import Process, start_python

from semel.faces.cli import main
from semel.faces.cli.printing import forget_options
from semel.testing.scripted_agent import command, prompt

PATIENCE = 60.0  # seconds: other work may share the machine
PERMISSION = prompt({"permission": "rm -r ./build", "allowed": ["Thank you, it is tidy now."], "denied": ["As it is."]})
SCRIPTED = f"[agents.demo]\ncommand = {json.dumps(command())}\n"


def until(what: Callable[[], Any], why: str, patience: float = PATIENCE) -> Any:
    """Wait until `what()` is true, and return it."""
    end = time.monotonic() + patience
    while not (got := what()):
        assert time.monotonic() < end, f"{why} did not come true in {patience:.0f} s"
        time.sleep(0.02)
    return got


class Done(NamedTuple):
    stdout: str
    stderr: str
    rc: int


@dataclass
class Cli:
    """Runs `semel` with a home of its own."""

    home: Path
    data: Path
    started: list[Process] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SEMEL_", "XDG_"))}
        return {**kept, "HOME": str(self.home), "SEMEL_DATA": str(self.data), "COLUMNS": "100"}

    def __call__(self, *args: str, stdin: str = "", rc: int = 0) -> Done:
        """Run a command in this process, as the console script would. `rc` is the exit code it must have."""
        out, err, code = io.StringIO(), io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith(("SEMEL_", "XDG_"))]:
                patch.delenv(name)
            for name, value in {"HOME": str(self.home), "SEMEL_DATA": str(self.data), "COLUMNS": "100"}.items():
                patch.setenv(name, value)
            patch.chdir(self.home)
            patch.setattr(sys, "argv", ["semel", *args])
            for name, stream in {"stdin": io.StringIO(stdin), "stdout": out, "stderr": err}.items():
                patch.setattr(sys, name, stream)
            try:
                main()
            except SystemExit as exit:
                code = int(exit.code or 0)
            finally:
                forget_options()  # another test in this process may print a command
        done = Done(out.getvalue(), err.getvalue(), code)
        assert code == rc, f"{args}: {done}"
        return done

    def json(self, *args: str, rc: int = 0) -> Any:
        return json.loads(self(*args, "--json", rc=rc).stdout)

    def start(self, *args: str) -> Process:
        """`semel ...` as a process that goes on; its output is one stream."""
        process = start_python(
            *("-m", "semel", *args),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.env,
            cwd=self.home,
            interruptible=True,
        )
        self.started.append(process)
        return process

    def leave(self) -> None:
        """Nothing of a test outlives it, one that failed included."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            if process.stdout is not None and not process.stdout.closed:
                process.communicate(timeout=PATIENCE)

    def up(self, *args: str) -> Process:
        """A gateway that answers."""
        process = self.start("up", "--listen", "127.0.0.1:0", *args)
        until(lambda: self.address(process.pid) or process.poll() is not None, "the gateway's start")
        assert process.poll() is None, process.communicate()[0]
        return process

    def address(self, pid: int) -> str | None:
        try:
            told = json.loads((self.data / "gateway.json").read_text())
        except (OSError, ValueError):
            return None
        return str(told["url"]) if told["pid"] == pid else None


def heard(process: Process, text: str) -> str:
    """The next line of a process that holds this text."""
    assert process.stdout is not None
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        return next(line for line in process.stdout if text in line)
    finally:
        watchdog.cancel()


def end(process: Process) -> str:
    """Ctrl-C, and what the process had to say."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=PATIENCE)
    return said
