"""`python -m proof machines`: run the machines over many seeds; one command replays a seed, and makes it small.

A seed is one run of Hypothesis: so many lives of a machine, each of so many steps. Which seeds, is fixed in a quick
run and drawn anew in a complete one.
"""

from __future__ import annotations

import argparse
import importlib
import io
import secrets
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, reporting, seed, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.stateful import run_state_machine_as_test

from proof.arguments import BadArgument, whole
from proof.machines.approving import RequestMachine
from proof.machines.asking import PeopleMachine
from proof.machines.copies import CallMachine, ClaimMachine, IdentityMachine
from proof.machines.cost import CostMachine
from proof.machines.counted import Counted
from proof.machines.delivery import PartMachine
from proof.machines.fold import FoldMachine
from proof.machines.house import short_outputs
from proof.machines.machine import LedgerMachine
from proof.machines.permitting import PermissionMachine
from proof.machines.pool import spread
from proof.machines.restoring import RestoreMachine
from proof.machines.turns import TurnMachine
from proof.report import Proof

SQLITE = "proof.machines.stored:StoredLedger"

# Hypothesis draws constants of the loaded modules; where a seed is run again other modules are loaded, so it gets none.
providers._get_local_constants = Constants


@dataclass(frozen=True)
class Plan:
    """How a machine is run: lives and steps of one seed, seeds of a quick and of a complete run."""

    machine: type[Counted]
    lives: int
    steps: int
    quick: int
    full: int


PLANS = {
    "ledger": Plan(LedgerMachine, 12, 80, 12, 80),
    "cost": Plan(CostMachine, 3, 20, 1, 8),
    "parts": Plan(PartMachine, 80, 30, 2, 16),
    "turns": Plan(TurnMachine, 60, 40, 2, 16),
    "fold": Plan(FoldMachine, 60, 40, 3, 24),
    "claims": Plan(ClaimMachine, 60, 40, 2, 16),
    "calls": Plan(CallMachine, 60, 40, 1, 8),
    "identity": Plan(IdentityMachine, 60, 40, 1, 8),
    "people": Plan(PeopleMachine, 40, 40, 2, 16),
    "requests": Plan(RequestMachine, 40, 60, 3, 24),
    "permissions": Plan(PermissionMachine, 30, 40, 6, 24),
    "restore": Plan(RestoreMachine, 60, 40, 4, 24),
}


@dataclass(frozen=True)
class Task:
    name: str
    seed: int
    lives: int | None = None  # None: as planned
    small: bool = False  # make a failure small, and print it
    ledger: str = SQLITE

    @property
    def replay(self) -> str:
        lives = f" --lives {self.lives}" if self.lives is not None else ""
        ledger = f" --ledger {self.ledger}" if self.ledger != SQLITE else ""
        return f"python -m proof machines --machine {self.name} --seed {self.seed}{lives}{ledger}"


@dataclass(frozen=True)
class Result:
    """What one seed came to. `broken`: what broke, in a line; `told`: the steps that led there."""

    task: Task
    lives: int
    steps: int
    broken: str = ""
    told: str = ""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--machine", choices=sorted(PLANS), help="only this machine")
    parser.add_argument("--seed", type=int, help="only this seed of --machine; a failure is made small, and told")
    parser.add_argument("--lives", type=whole(), help="of each seed; it is part of what a seed replays")
    parser.add_argument("--ledger", default=SQLITE, metavar="MODULE:NAME", help=f"what makes a ledger ({SQLITE})")
    parser.add_argument("--first", action="store_true", help="stop at the first violation")


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    """Run the seeds, on two cores."""
    names = [args.machine] if args.machine else list(PLANS)
    if args.seed is not None and not args.machine:
        raise BadArgument("--seed is the seed of one machine: say which, with --machine")
    tasks = planned(names, quick, args.lives, args.ledger)
    if args.seed is not None:
        tasks = [Task(args.machine, args.seed, args.lives, small=True, ledger=args.ledger)]
    put_under(args.ledger)
    results: list[Result] = []
    for result in run(tasks):
        results.append(result)
        if result.told:
            print(result.told, flush=True)
        if result.broken and args.first:
            break
    broken = [f"{one.task.name}: {one.broken}; replay: {one.task.replay}" for one in results if one.broken]
    return Proof("machines", counts(results, names, tasks[0].seed), broken, work="steps")


def counts(results: list[Result], names: list[str], first: int) -> dict[str, int | float | str]:
    """What was run: seeds, lives and steps, and the steps of each machine."""
    out: dict[str, int | float | str] = {f"seeds (of each machine from {first} on)": len(results)}
    out |= {"lives": sum(one.lives for one in results), "steps": sum(one.steps for one in results)}
    if len(names) > 1:
        out |= {f"of {name}": sum(one.steps for one in results if one.task.name == name) for name in names}
    return out


def put_under(ledger: str) -> None:
    """The ledger that the machines drive: a `proof.machines.ledger.Make`, by its name."""
    module, _, name = ledger.partition(":")
    try:
        make = getattr(importlib.import_module(module), name)
        make(lambda: 0).close()
    except Exception as fault:
        why = f"{type(fault).__name__}: {fault}"
        raise BadArgument(f"--ledger {ledger!r} makes no ledger ({why}): give MODULE:NAME, such as {SQLITE}") from None
    LedgerMachine.make = PeopleMachine.make = make


def planned(names: list[str], quick: bool, lives: int | None, ledger: str) -> list[Task]:
    """The seeds of each machine in turn, so that each has had one soon."""
    base = 0 if quick else secrets.randbelow(1 << 32)
    many = {name: PLANS[name].quick if quick else PLANS[name].full for name in names}
    rounds = max(many.values())
    return [Task(name, base + n, lives, ledger=ledger) for n in range(rounds) for name in names if n < many[name]]


def run(tasks: list[Task]) -> Iterator[Result]:
    """Each seed in one of two processes; one alone in this one."""
    yield from spread(one, tasks, _nothing) if len(tasks) > 1 else map(one, tasks)


def _nothing() -> None:
    """There is nothing to set up."""


def one(task: Task) -> Result:
    """Run one seed."""
    plan = PLANS[task.name]
    Counted.lives = Counted.steps = 0
    machine: Any = seed(task.seed)(type(plan.machine.__name__, (plan.machine,), {}))
    phases = (Phase.generate, Phase.shrink) if task.small else (Phase.generate,)
    how = settings(
        max_examples=task.lives or plan.lives, stateful_step_count=plan.steps, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), report_multiple_bugs=False, print_blob=False, phases=phases,
    )  # fmt: skip
    lines: list[object] = []
    try:
        with short_outputs(), redirect_stdout(io.StringIO()), reporting.with_reporter(lines.append):
            run_state_machine_as_test(machine, settings=how)
    except Exception as fault:
        notes = "\n".join([*map(str, lines), *getattr(fault, "__notes__", [])])
        return Result(task, Counted.lives, Counted.steps, words(fault), notes if task.small else "")
    return Result(task, Counted.lives, Counted.steps)


def words(fault: Exception) -> str:
    """What broke, where, in one line."""
    at = traceback.extract_tb(fault.__traceback__)[-1]
    said = " ".join(str(fault).split())[:300]
    return f"{type(fault).__name__} in {at.name}: {said or at.line}"
