"""`python -m proof [PART] [--quick]`: run the parts of the proof; 0 when every one of them was run and holds."""

from __future__ import annotations

import argparse
import asyncio
import errno
import importlib
import os
import signal
import sys
import time
from typing import Any

from proof.arguments import BadArgument
from proof.report import Proof, told

NO_ROOM = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES)

PARTS = {
    "crash": "every system call that touches the disk or a socket is a place to die",
    "power": "the disk after a power cut, rebuilt after each file operation",
    "schedules": "the gateway under seeded orders of events, with faults",
    "agents": "agents and platforms as they were measured, with a death behind each update",
    "machines": "state machines over law and ledger, the books as invariants",
    "races": "transactions of several processes at once in the same sessions of a database",
    "mutants": "planted faults, each caught by a part above",
    "fuzz": "what reads bytes from outside, under coverage-guided fuzzing",
    "storms": "kills at any moment, over and over",
    "cluster": "gateways of one database that take over from each other",
    "soak": "200 sessions for five minutes, with kills",
}


def main() -> int:
    """Exit code: 0 all held, 1 something does not hold or could not be run, 2 bad arguments, 130 interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started it in the background
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # it ends as Ctrl-C ends it
    try:
        return _proven()
    except BadArgument as bad:
        print(f"python -m proof: {bad}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted: nothing is proven", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read it has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _proven() -> int:
    parser = argparse.ArgumentParser(prog="python -m proof", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sample of each part, under ten minutes in all")
    choices = parser.add_subparsers(dest="part", metavar="PART")
    for name, says in PARTS.items():
        one = choices.add_parser(name, help=says)
        one.add_argument("--quick", action="store_true", default=argparse.SUPPRESS, help="a sample of this part")
        if name in sys.argv or not set(PARTS) & set(sys.argv):  # only those that will be run are loaded
            _module(name).options(one)
    args = parser.parse_args()
    if args.part is not None:
        return _run(args.part, args)
    alone = {name: choices.choices[name].parse_args(["--quick"] if args.quick else []) for name in PARTS}
    failed = [name for name, its in alone.items() if _run(name, its)]
    print(f"does not hold: {', '.join(failed)}" if failed else "every part holds", flush=True)
    return 1 if failed else 0


def _run(name: str, args: argparse.Namespace) -> int:
    started = time.monotonic()
    try:
        proof: Proof = _module(name).prove(getattr(args, "quick", False), args)
    except OSError as fault:
        if fault.errno not in NO_ROOM:
            raise
        proof = Proof(name, missing=f"{fault.filename or 'its files'}: {fault.strerror}; make room, or set TMPDIR")
    print(told(proof, time.monotonic() - started), flush=True)
    return 0 if proof.holds else 1


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"proof.{name}.main")
    except ModuleNotFoundError as missing:
        if str(missing.name).startswith("proof"):
            raise
        raise BadArgument(
            f'{missing.name} is not installed for {sys.executable}: `make prove ARGS="{name} ..."` installs what the '
            "proof needs into .venv, and .venv/bin/python -m proof runs it"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
