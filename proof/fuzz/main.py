"""`python -m proof fuzz [TARGET ...] [--seconds S] [--quick] [--replay FILE]`."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import traceback
from pathlib import Path

from proof.arguments import BadArgument, whole
from proof.fuzz import api
from proof.fuzz.campaign import Campaign, Finding, Outcome, replay
from proof.fuzz.targets import names
from proof.report import Proof
from proof.room import memory

FULL, QUICK = 15, 3
"""Seconds of each target."""
API_FULL, API_QUICK = 60, 15
API = "api"
"""The OpenAPI document of a running gateway, under schemathesis: a target like the others, but for its tool."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="*", metavar="TARGET", help=f"default: all of {', '.join([*names(), API])}")
    parser.add_argument("--seconds", type=whole(), metavar="S", help="for each target")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="of the fuzzers; 0: another one each time (the default; with --quick 1)"
    )
    parser.add_argument(
        "--replay", type=Path, default=None, metavar="FILE", help="give a target these bytes, and no others"
    )


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    known = [*names(), API]
    asked = list(args.target) or known
    if odd := [name for name in asked if name not in known]:
        raise BadArgument(f"there is no target {odd[0]!r}; there are: {', '.join(known)}")
    if args.replay is not None:
        return _replayed(asked, args.replay)
    if missing := _missing(asked):
        return Proof("fuzz", missing=missing)
    return _all(asked, quick, args)


def _missing(asked: list[str]) -> str | None:
    needs = {"atheris"} if set(asked) - {API} else set()
    needs |= {"schemathesis"} if API in asked else set()
    lacks = sorted(name for name in needs if importlib.util.find_spec(name) is None)
    if not lacks:
        return None
    which = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        f"{' and '.join(lacks)} is not installed: `make prove` does that, or pip install '.[proof]' "
        f"(atheris has wheels for some versions of Python only; this is {which})"
    )


def _all(asked: list[str], quick: bool, args: argparse.Namespace) -> Proof:
    """Two at a time; what is found is kept in a folder of its own, which is there only then."""
    keep = Path(tempfile.mkdtemp(prefix="semel-findings-"))
    with tempfile.TemporaryDirectory(prefix="semel-fuzz-", dir=memory(), ignore_cleanup_errors=True) as work:
        seed = args.seed if args.seed is not None else int(quick)
        campaign = Campaign(args.seconds or (QUICK if quick else FULL), seed, keep, Path(work))
        seconds = args.seconds or (API_QUICK if quick else API_FULL)
        try:
            outcomes = campaign.run(asked, {API: lambda: api.tested(seconds, seed, keep, campaign)})
        finally:
            if keep.is_dir() and not any(keep.iterdir()):
                keep.rmdir()
    violations = [line for outcome in outcomes for line in outcome.findings]
    violations += [
        f"{outcome.target} was not run to its end: {outcome.failed}" for outcome in outcomes if outcome.failed
    ]
    return Proof("fuzz", _counts(outcomes), violations)


def _counts(outcomes: list[Outcome]) -> dict[str, int | float | str]:
    readers = [outcome for outcome in outcomes if outcome.target != API]
    told: dict[str, int | float | str] = {}
    if readers:
        told["targets"] = len(readers)
        told["executions"] = sum(outcome.executions for outcome in readers)
        told["edges"] = sum(outcome.edges for outcome in readers)
    if tested := [outcome.executions for outcome in outcomes if outcome.target == API]:
        told["API cases"] = sum(tested)
    return told


def _replayed(asked: list[str], file: Path) -> Proof:
    if len(asked) != 1 or asked[0] == API:
        raise BadArgument("--replay needs the one target whose bytes these are")
    try:
        broken = replay(asked[0], file.read_bytes())
    except Finding as found:
        traceback.print_exception(found.__cause__)
        broken = str(found)
    except OSError as fault:
        raise BadArgument(f"{file} cannot be read: {fault.strerror}") from None
    return Proof("fuzz", {"replayed": file.name}, [f"{asked[0]}: {broken}"] if broken else [])


def _alone() -> int:
    """`python -m proof.fuzz.main TARGET FILE`: a replay in a process of its own, for the campaign."""
    proof = _replayed([sys.argv[1]], Path(sys.argv[2]))
    for line in proof.violations:
        print(line, file=sys.stderr)
    return 0 if proof.holds else 1


if __name__ == "__main__":
    sys.exit(_alone())
