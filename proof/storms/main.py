"""Runs the tests marked `storm`, four side by side: most of the time they wait for processes."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from proof.report import Proof

ROOT = Path(__file__).parents[2]
CHOSEN = "storm and not agents and not channels"
MARK = "STORMS_OF"
GOODBYE = 5.0
"""Seconds that the tests have to put away what they started."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--first", action="store_true", help="stop at the first violation")


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    """All of them, quick or not; those of editors are shorter if quick."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        CHOSEN,
        "-n",
        "4",
        "--dist",
        "load",
        "-p",
        "no:cacheprovider",
        "-q",
    ]
    if args.first:
        command.append("-x")
    said, code = _run(command, quick)
    passed = re.search(r"(\d+) passed", said)
    proof = Proof("storms", {"storms outlived": int(passed[1]) if passed else 0}, work="storms outlived")
    proof.violations = [
        f"{name}: {sys.executable} -m pytest -m '' '{name}'"
        for name in re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.M)
    ]
    if code and not proof.violations:
        proof.violations.append("the tests could not be run: " + " ".join(said.split())[-600:])
    if proof.violations:
        print(said[-20_000:])
    return proof


def _run(command: list[str], quick: bool) -> tuple[str, int]:
    """What pytest said, and its exit code. Whatever was started for it is ended when this one is interrupted."""
    mark = f"{MARK}={os.getpid()}.{os.urandom(4).hex()}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    kept |= {"CI": "", "STORM_QUICK": "1" if quick else ""}
    pytest = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True, env=kept | {MARK: mark.partition("=")[2]},
    )  # fmt: skip
    try:
        return pytest.communicate()[0], pytest.returncode
    except BaseException:
        pytest.send_signal(signal.SIGINT)  # its tests put away what they started
        with contextlib.suppress(subprocess.TimeoutExpired):
            pytest.communicate(timeout=GOODBYE)
        while left := _marked(mark.encode()):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        pytest.wait()
        raise


def _marked(mark: bytes) -> list[int]:
    """The processes that were started for it and still run: each has the mark in its environment."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            where = Path("/proc", name)
            dead = (where / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
            if not dead and mark in (where / "environ").read_bytes().split(b"\0"):
                found.append(int(name))
    return found
