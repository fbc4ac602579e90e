"""`python -m proof mutants`: every planted fault is caught by the part that its patch names."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from proof.arguments import BadArgument, whole
from proof.mutants import patches, trial
from proof.mutants.patches import Mutant
from proof.mutants.trial import Outcome, Trials
from proof.report import Proof

JOBS = 2
SEEN = 90  # characters of a violation that the table holds

Command = tuple[str, ...]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants, by the names of their patches")
    parser.add_argument("--part", dest="by", choices=patches.CATCHERS, help="those that this part must catch")
    parser.add_argument("--jobs", type=whole(), default=JOBS, metavar="N", help=f"so many at a time ({JOBS})")
    parser.add_argument("--list", action="store_true", help="say which there are, and run nothing")


@dataclass(frozen=True)
class Tried:
    """A mutant and what became of it; no outcome: it was not run."""

    mutant: Mutant
    outcome: Outcome | None
    why: str = ""


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    """Run the mutants that are asked for, `--jobs` at a time."""
    chosen = _chosen(quick, args.only, args.by)
    if args.list:
        for one in chosen:
            print(f"{one.name:<36} law {one.law:<2} {' '.join(one.command):<40} {one.fault}")
        return Proof("mutants", {"mutants": len(chosen)})
    if shutil.which("git") is None:
        return Proof("mutants", missing="git is not installed, and the patches are applied by it")
    room = Path(tempfile.mkdtemp(prefix="mu"))  # short: sockets lie in it
    try:
        with ThreadPoolExecutor(max(1, args.jobs)) as pool, Trials() as trials:
            try:
                sound, tried = _all(chosen, room, pool, trials)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    print(_table(tried), flush=True)
    return _proof(chosen, sound, tried)


def _chosen(quick: bool, only: Sequence[str] | None, part: str | None) -> list[Mutant]:
    try:
        known = patches.all_of()
    except patches.BadHeader as bad:
        raise BadArgument(str(bad)) from None
    if unknown := sorted(set(only or ()) - {one.name for one in known}):
        raise BadArgument(f"there is no mutant {unknown[0]!r}; `python -m proof mutants --list` names them")
    if only:
        return [one for one in known if one.name in only]
    return [one for one in known if (one.quick or not quick) and part in (None, one.part)]


def _all(
    chosen: Sequence[Mutant], room: Path, pool: ThreadPoolExecutor, trials: Trials
) -> tuple[dict[Command, Outcome], list[Tried]]:
    """Each command over the code as it is, and each mutant; in the order of the mutants."""
    base = room / "base"
    trial.prepare(trial.ROOT, base)
    sound = {c: pool.submit(_sound, c, room / f"b{n}", base, trials) for n, c in enumerate(_commands(chosen))}
    tried = [pool.submit(_try, one, room / f"m{n}", base, trials) for n, one in enumerate(chosen)]
    return {c: f.result() for c, f in sound.items()}, [f.result() for f in tried]


def _commands(chosen: Sequence[Mutant]) -> list[Command]:
    return list(dict.fromkeys(one.command for one in chosen))


def _sound(command: Command, tree: Path, base: Path, trials: Trials) -> Outcome:
    """The same command where there is no fault."""
    trial.copy(base, tree)
    if why := trial.check_what_runs(tree, ()):
        return Outcome("broken", 0.0, why)
    return trials.run(tree, command)


def _try(mutant: Mutant, tree: Path, base: Path, trials: Trials) -> Tried:
    trial.copy(base, tree, without=mutant.files)
    try:
        patches.apply(mutant, tree)
    except patches.DoesNotApply as no:
        return Tried(mutant, None, str(no))
    if why := trial.check_what_runs(tree, mutant.modules):
        return Tried(mutant, None, why)
    outcome = trials.run(tree, mutant.command)
    shutil.rmtree(tree, ignore_errors=True)
    return Tried(mutant, outcome)


# ---------------------------------------------------------------- what is told


def _table(tried: Sequence[Tried]) -> str:
    lines = [f"{'mutant':<32} {'law':>3}  {'part':<10} {'verdict':<9} {'seconds':>7}  what it found first"]
    for one in tried:
        out = one.outcome or Outcome("missing", 0.0, one.why)
        head = f"{one.mutant.name:<32} {one.mutant.law:>3}  {one.mutant.part:<10} {out.verdict:<9} {out.seconds:7.1f}"
        lines.append(f"{head}  {out.why if len(out.why) <= SEEN else out.why[: SEEN - 1] + '…'}")
    return "\n".join(lines)


def _proof(chosen: Sequence[Mutant], sound: dict[Command, Outcome], tried: Sequence[Tried]) -> Proof:
    missing = [f"{command[0]}: {outcome.why}" for command, outcome in sound.items() if outcome.verdict == "missing"]
    caught = [one for one in tried if one.outcome is not None and one.outcome.verdict == "caught"]
    violations = [
        f"without a fault, `python -m proof {' '.join(command)}` does not hold, so it proves no mutant: {outcome.why}"
        for command, outcome in sound.items()
        if outcome.verdict != "survived"
    ]
    violations += [_told(one) for one in tried if one not in caught]
    laws = {one.mutant.law for one in caught}
    counts = {"mutants": len(chosen), "caught": len(caught), "laws broken": len(laws), "sound runs": len(sound)}
    return Proof("mutants", dict(counts), violations, missing[0] if missing else None)


def _told(one: Tried) -> str:
    replay = f"python -m proof mutants --only {one.mutant.name}"
    if one.outcome is None:
        return f"{one.mutant.name}: {one.why}; {replay}"
    if one.outcome.verdict == "survived":
        return f"{one.mutant.name} survives: {one.mutant.part} did not see that {one.mutant.fault}; {replay}"
    return f"{one.mutant.name} is no mutant that proves anything, {one.outcome.why}; {replay}"
