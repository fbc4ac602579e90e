"""`python -m proof agents`: each behaviour that was measured, with deaths behind what its agent tells; or one case."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections import Counter
from typing import Any

from proof.arguments import BadArgument, whole
from proof.report import Proof
from proof.schedules.main import environment, workers

Json = dict[str, Any]

FULL, QUICK = 1, 13
"""Of the cases with a death, a stop or a message, one of so many is run: no multiple of how many kinds there are."""
MOST = 10  # violations after which a run is not gone on with


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--each", type=whole(), help=f"run one case of so many (default {FULL}; with --quick {QUICK})")
    parser.add_argument("--first", action="store_true", help="stop at the first violation")
    parser.add_argument("--behaviour", help="this one alone, by its name in docs/measured.md, with dashes for blanks")
    parser.add_argument(
        "--kind", help="with --behaviour: one case: alone, or agent, gateway, stop or message behind --n"
    )
    parser.add_argument("--n", type=whole(), default=1, help="with --kind: behind which update of the agent it happens")
    parser.add_argument("--room", default="chat", help="with --kind: chat, mail, hook or web")
    parser.add_argument("--verbose", action="store_true", help="with --kind: tell every step")


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    if importlib.util.find_spec("greenlet") is None:
        return Proof("agents", missing="greenlet is not installed (pip install greenlet)")
    from proof.agents.measured import BEHAVIOURS, dashed

    if args.kind is None and args.verbose:
        raise BadArgument("--verbose is for one case: say which, with --behaviour and --kind")
    if args.behaviour is None:
        return _prove_many(0, len(BEHAVIOURS), args.each or (QUICK if quick else FULL), args.first)
    named = [n for n, name in enumerate(BEHAVIOURS) if args.behaviour in (name, dashed(name))]
    if not named:
        raise BadArgument(f"there is no behaviour {args.behaviour!r}; docs/measured.md lists them")
    if args.kind is None:
        return _prove_many(named[0], named[0] + 1, args.each or FULL, args.first)
    return _prove_one([*BEHAVIOURS][named[0]], args)


def _prove_many(begin: int, end: int, each: int, first: bool) -> Proof:
    proof = Proof("agents", work="cases")
    counts: Counter[str] = Counter()
    with workers(begin, end, "proof.agents.work", str(each)) as told:
        for line in told:
            if "gone" in line:
                proof.violations.append(f"a worker ended: {line['gone']}")
                break
            counts.update({"cases": 1, "steps": line["steps"], **line["counts"]})
            if line["broken"]:
                more = f" (and {len(line['broken']) - 1} more)" if len(line["broken"]) > 1 else ""
                replay = f"python -m proof agents {line['options']} --verbose"
                proof.violations.append(f"{line['case']}: {line['broken'][0]}{more}; replay: {replay}")
                print(f"  ! {proof.violations[-1]}", file=sys.stderr, flush=True)
            if proof.violations and (first or len(proof.violations) >= MOST):
                break
    proof.counts = {"behaviours": end - begin}
    proof.counts |= {name: counts[name] for name in ("cases", "steps", "lives", "turns", "lost", "resumed", "attempts")}
    return proof


def _prove_one(behaviour: str, args: argparse.Namespace) -> Proof:
    from proof.agents.cases import KINDS, ROOMS, Case, run_case
    from proof.schedules.chance import settled
    from proof.schedules.run import Folder

    for given, known in ((args.room, ROOMS), (args.kind, KINDS)):
        if given not in known:
            raise BadArgument(f"there is no {given!r}; there are: {', '.join(known)}")
    if not settled():
        os.execve(sys.executable, [sys.executable, "-m", "proof", *sys.argv[1:]], environment())
    proof = Proof("agents")
    with Folder() as folder:
        case = Case(behaviour, args.room, args.kind, 0 if args.kind == "alone" else args.n)
        verdict = run_case(case, folder, print if args.verbose else None)
    proof.violations = [*verdict.broken]
    proof.counts = {"steps": verdict.steps, "virtual seconds": verdict.seconds, **verdict.counts}
    return proof
