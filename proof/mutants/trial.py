"""One trial: a copy of src/, with a fault or without, and one part of the proof run over it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 900.0  # seconds for one trial: a part that hangs has caught nothing
GRACE = 20.0  # seconds that a part has to end and tidy up, once it is told to
MARK = "SEMEL_MUTANT_TRIAL"  # in the environment of everything that a trial starts

_MISTAKES = re.compile(
    r"\b(SyntaxError|IndentationError|ImportError|ModuleNotFoundError|NameError|UnboundLocalError|AttributeError"
    r"|TypeError|SQLError)\b"
)

Verdict = Literal["caught", "survived", "broken", "missing"]


@dataclass(frozen=True)
class Outcome:
    """What became of a trial. `why`: the first violation, or what went wrong instead.

    "broken": it ended without an answer, or in a mistake of the patch; "missing": the part cannot be run here.
    """

    verdict: Verdict
    seconds: float
    why: str


class Stopped(Exception):
    """Somebody ended the whole run."""


class Trials:
    """Runs trials, several at once from threads, and ends those that run when it is left."""

    def __init__(self) -> None:
        self._living: set[subprocess.Popen[bytes]] = set()
        self._gate = threading.Lock()
        self._stopped = False

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        with self._gate:
            self._stopped = True
            living = list(self._living)
        for child in living:
            _end(child)

    def run(self, tree: Path, command: Sequence[str]) -> Outcome:
        """`python -m proof COMMAND` over the sources in `tree`/src. Raises Stopped."""
        mark = secrets.token_hex(8)
        room = tree / "t"
        room.mkdir()
        started = time.monotonic()
        with (tree / "out").open("w+b") as out:
            child = self._start([sys.executable, "-m", "proof", *command], _environ(tree, room, mark), out)
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                _end(child)
            finally:
                with self._gate:
                    self._living.discard(child)
                _sweep(mark)
            seconds = time.monotonic() - started
            out.seek(0)
            said = out.read().decode("utf-8", "replace")
        if self._stopped:
            raise Stopped
        if seconds >= PATIENCE:
            return Outcome("broken", seconds, f"it did not end within {PATIENCE:g} s")
        return Outcome(*judged(command[0], child.returncode, said, seconds))

    def _start(self, command: list[str], env: dict[str, str], out: IO[bytes]) -> subprocess.Popen[bytes]:
        with self._gate:
            if self._stopped:
                raise Stopped
            child = subprocess.Popen(
                command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            self._living.add(child)
            return child


def judged(part: str, code: int, said: str, seconds: float) -> tuple[Verdict, float, str]:
    """What the end of a part means. A traceback is no violation, and neither is a mistake in the patch."""
    told = [line[4:].strip() for line in said.splitlines() if line.startswith("  ! ")]
    counted = re.search(rf"^{part}\b.*?\b([1-9][\d,]*) violations;", said, re.M)
    if code == 1 and told and counted:
        mistake = next((line for line in told if _MISTAKES.search(line)), None)
        return ("broken", seconds, f"a mistake of its own: {mistake}") if mistake else ("caught", seconds, told[0])
    if missing := re.search(rf"^{part}\s+NOT RUN: (.*)", said, re.M):
        return "missing", seconds, missing[1]
    last = said.strip().splitlines()[-1:] or ["nothing"]
    if code == 0:
        return "survived", seconds, last[0]
    return "broken", seconds, f"the part ended with {code} and without a violation; it said last: {last[0]}"


def copy(source: Path, tree: Path, without: Iterable[str] = ()) -> None:
    """A copy of `source`/src in `tree`, with what was compiled there; but for that of the files `without`."""
    shutil.copytree(source / "src", tree / "src")
    for file in without:
        path = tree / file
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()


def prepare(source: Path, tree: Path) -> None:
    """The first copy, without a fault: compiled, so that no trial has to."""
    shutil.copytree(source / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "compileall", "-q", "-j", "2", str(tree / "src")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def check_what_runs(tree: Path, modules: Sequence[str]) -> str | None:
    """Why the code that would run is not that of the copy, or cannot be imported; None: it is, and can."""
    names = ("proof", "semel", *modules)
    code = f"import sys, {', '.join(names)}\nprint(*(sys.modules[m].__file__ for m in {names[1:]!r}), sep='\\n')"
    env = _environ(tree, tree, "")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        return f"it cannot be imported: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
    home = (tree / "src").resolve()
    strange = [line for line in done.stdout.splitlines() if not Path(line).resolve().is_relative_to(home)]
    return f"{strange[0]} would run instead of the copy" if strange else None


def _environ(tree: Path, room: Path, mark: str) -> dict[str, str]:
    """PYTHONPATH stands before what is installed; files of the trial lie in the tree, and go with it."""
    paths = [str((tree / "src").resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(room.resolve()), MARK: mark}
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | own


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ctrl-C first, so that the part ends what it started."""
    for sign in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, sign)
        try:
            child.wait(GRACE)
            return
        except subprocess.TimeoutExpired:
            continue


def _sweep(mark: str) -> None:
    """What a faulty gateway left behind is ended: every process of this user that bears this trial's mark."""
    sought = f"{MARK}={mark}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if sought in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)
