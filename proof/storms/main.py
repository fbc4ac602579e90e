"""Runs the tests marked `storm`, four side by side: most of the time they wait for processes."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from proof.report import Proof

ROOT = Path(__file__).parents[2]
CHOSEN = "storm and not agents and not channels"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--first", action="store_true", help="stop at the first violation")


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    """All of them, quick or not: together they take two minutes."""
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
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"CI": ""})
    passed = re.search(r"(\d+) passed", told.stdout)
    proof = Proof("storms", {"storms outlived": int(passed[1]) if passed else 0})
    proof.violations = [
        f"{name}: {sys.executable} -m pytest -m '' '{name}'"
        for name in re.findall(r"^(?:FAILED|ERROR) (\S+)", told.stdout, re.M)
    ]
    if told.returncode and not proof.violations:
        proof.violations.append("the tests could not be run: " + (told.stdout + told.stderr)[-2000:])
    if proof.violations:
        print(told.stdout[-20_000:])
    return proof
