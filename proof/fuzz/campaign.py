"""Runs targets under atheris, each in a process of its own, and tells what came of it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from proof.fuzz import engine
from proof.fuzz.hush import hush
from proof.fuzz.scratch import GIVEN

SIDE_BY_SIDE = 2
START = 60
"""Seconds beyond its time after which a target's process is ended: for importing it, and for its last input."""
REPLAY = 120.0
_STAT = re.compile(r"#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+)(?: corp: (\d+))?")
_DONE = re.compile(r"Done (\d+) runs")


@dataclass
class Outcome:
    """One target's run. `edges` and `features` as libFuzzer counts them, over the code of `semel`."""

    target: str
    executions: int = 0
    edges: int = 0
    features: int = 0
    findings: list[str] = field(default_factory=list)  # a line each, with the command that replays it
    failed: str = ""  # why it could not be run to its end

    def __str__(self) -> str:
        what = f"{self.executions:>9,} executions"
        if self.edges:
            what += f", {self.edges:>5,} edges, {self.features:>6,} features"
        return f"  {self.target:<10} {what}, {len(self.findings)} findings{'; ' + self.failed if self.failed else ''}"


class Campaign:
    """`run` gives each target so many seconds. What is found stays in `keep`, which is made when it is needed."""

    def __init__(self, seconds: int, seed: int, keep: Path, work: Path) -> None:
        self.seconds = seconds
        self.seed = seed
        self.keep = keep
        self.work = work
        self._running: set[subprocess.Popen[str]] = set()
        self._over = False

    def run(self, names: Sequence[str], other: Mapping[str, Callable[[], Outcome]]) -> list[Outcome]:
        """Every target, two at a time; `other`: those that are run in another way. Ctrl-C leaves no process."""
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            first = sorted(names, key=lambda name: name not in other)
            asked = [pool.submit(other.get(name, partial(self.one, name))) for name in first]
            try:
                return [one.result() for one in asked]
            finally:
                self.end()

    def end(self) -> None:
        self._over = True
        for process in list(self._running):
            _kill(process)

    def one(self, name: str) -> Outcome:
        folder = self.work / name
        (folder / "scratch").mkdir(parents=True)
        command = [sys.executable, "-m", "proof.fuzz.engine", name, str(folder), str(self.seconds), str(self.seed)]
        told, code = self.process(command, self.seconds + START, scratch=folder / "scratch")
        shutil.rmtree(folder / "scratch", ignore_errors=True)
        outcome = _read(name, told)
        for found in sorted(
            [*folder.glob("finding-*.bin"), *folder.glob("timeout-*"), *folder.glob("oom-*"), *folder.glob("crash-*")]
        ):
            outcome.findings += self._judged(name, found)
        if (code != 0 or not outcome.executions) and not outcome.findings and not self._over:
            tail = " / ".join(told.strip().splitlines()[-3:])
            outcome.failed = f"its process ended with {code}: {tail[-400:]}"
        print(outcome, flush=True)
        return outcome

    def process(
        self, command: list[str], seconds: float, cwd: Path | None = None, scratch: Path | None = None
    ) -> tuple[str, int]:
        """What it says, and its exit code. It is killed with all that it started."""
        if self._over:
            return "", -1
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True, cwd=cwd,
            env={**os.environ, **({GIVEN: str(scratch)} if scratch is not None else {})},
        )  # fmt: skip
        self._running.add(process)
        try:
            told = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            _kill(process)
            told = process.communicate()[0] + f"\nkilled after {seconds:.0f} s"
        finally:
            self._running.discard(process)
        return told, process.returncode

    def _judged(self, name: str, found: Path) -> list[str]:
        """The finding, if it is one without the fuzzer, too; a slow one may only have been slow there."""
        why = found.with_suffix(".txt").read_text(encoding="utf-8") if found.suffix == ".bin" else found.name
        kept = self.keep / f"{name}-{found.stem}"
        self.keep.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found, kept)
        command = [sys.executable, "-m", "proof", "fuzz", name, "--replay", str(kept)]
        told, code = self.process([*command[:2], "proof.fuzz.main", name, str(kept)], REPLAY)
        if code == 0 and ("s of CPU" in why or found.suffix != ".bin"):
            kept.unlink()
            return []
        said = next((line for line in told.splitlines() if line.startswith(f"{name}: ")), why.strip().splitlines()[-1])
        said = said.removeprefix(f"{name}: ")[:400]
        alone = "" if code else " (not when it is replayed alone)"
        return [f"{name}: {said}{alone}; replay: {shlex.join(['python', *command[1:]])}"]


def _read(name: str, told: str) -> Outcome:
    stats = _STAT.findall(told)
    runs, edges, features = (int(stats[-1][0]), int(stats[-1][1]), int(stats[-1][2])) if stats else (0, 0, 0)
    done = _DONE.findall(told)
    return Outcome(name, int(done[-1]) if done else runs, edges, features)


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def replay(name: str, data: bytes) -> str | None:
    """What the target says of these bytes in a process without a fuzzer; None: it holds."""
    hush()
    target = engine.load(name)
    began = time.process_time()
    try:
        target.one(data)
    except Exception as fault:
        raise Finding(f"{type(fault).__name__}: {fault}") from fault
    finally:
        if "proof.fuzz.gate" in sys.modules:
            sys.modules["proof.fuzz.gate"].end()
    used = time.process_time() - began
    return None if used <= engine.SLOW else f"it took {used:.1f} s of CPU, and no input may take {engine.SLOW:g} s"


class Finding(Exception):
    """What a replayed input shows."""
