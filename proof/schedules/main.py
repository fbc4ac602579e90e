"""`python -m proof schedules`: 6,000 seeds in two processes, and 1,000 with editors; or one, told, shrunk, or cut."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proof.arguments import BadArgument, whole
from proof.report import Proof
from proof.room import memory
from proof.schedules import ways
from proof.schedules.editor_plans import EDITOR_SEEDS

Json = dict[str, Any]

FULL, QUICK = 6_000, 800
FULL_EDITORS, QUICK_EDITORS = 1_000, 80  # seeds with editors, beside the others
WORKERS = 2
SILENCE = 120.0  # seconds after which a worker that tells nothing counts as hung
PROGRESS = 2_500
MOST = 10  # violations after which a run is not gone on with


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=whole(), help=f"how many seeds (default {FULL:,}; with --quick {QUICK})")
    parser.add_argument("--begin", type=whole(0), default=0, help="the first seed")
    parser.add_argument(
        "--editors",
        type=whole(0),
        help=f"how many seeds with editors (default {FULL_EDITORS:,}; with --quick {QUICK_EDITORS})",
    )
    parser.add_argument("--first", action="store_true", help="stop at the first violation")
    parser.add_argument("--seed", type=int, help="run this seed alone; twice, and the two must be the same")
    parser.add_argument("--plan", type=Path, help="run the plan in this file instead of a seed's own")
    parser.add_argument("--keep", help="with --seed or --plan: only these actions, by their numbers: 1,4,7")
    parser.add_argument("--verbose", action="store_true", help="with --seed or --plan: tell every step")
    parser.add_argument(
        "--shrink", action="store_true", help="with --seed or --plan: the fewest actions that still fail"
    )


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    if importlib.util.find_spec("greenlet") is None:
        return Proof("schedules", missing="greenlet is not installed (pip install greenlet)")
    if args.seed is not None or args.plan is not None:
        return _alone(args)
    if args.verbose or args.shrink or args.keep is not None:
        raise BadArgument("--verbose, --shrink and --keep are for one run: say which, with --seed or --plan")
    seeds, editors = args.seeds, args.editors
    if seeds is None and editors is None:
        seeds, editors = (QUICK, QUICK_EDITORS) if quick else (FULL, FULL_EDITORS)
    return _many(args.begin, args.begin + (seeds or 0), args.first, editors or 0)


# ---------------------------------------------------------------- many


def _many(begin: int, end: int, first: bool, editors: int = 0) -> Proof:
    proof = Proof("schedules", work="steps")
    counts: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    count = end - begin + editors
    with contextlib.closing(_told_of((begin, end), (EDITOR_SEEDS, EDITOR_SEEDS + editors))) as told:
        for line in told:
            if "gone" in line:
                proof.violations.append(f"a worker ended: {line['gone']}")
                break
            counts.update(
                {"seeds": 1, "steps": line["steps"], "virtual hours": line["seconds"] / 3600, **line["counts"]}
            )
            for way, n in line["ways"].items():
                reached[way] += n
            if line["broken"]:
                proof.violations.append(_told(line))
                print(f"  ! {proof.violations[-1]}", file=sys.stderr, flush=True)
            if counts["seeds"] % PROGRESS == 0:
                print(f"schedules: {counts['seeds']:,} of {count:,} seeds", flush=True)
            if proof.violations and (first or len(proof.violations) >= MOST):
                break
    named = ("seeds", "steps", "lives", "turns", "lost", "resumed", "recalled", "events", "attempts", "echoes", "held")
    proof.counts = {name: counts[name] for name in named}
    proof.counts["virtual hours"] = round(float(counts["virtual hours"]), 1)
    proof.counts["ways reached"] = ways.told(reached)
    if counts["seeds"] >= QUICK and not proof.violations:
        proof.violations += ways.never_reached(reached, counts["seeds"])
    return proof


def _told_of(*ranges: tuple[int, int]) -> Generator[Json, None, None]:
    """The lines of the seeds of each range."""
    for begin, end in ranges:
        if begin < end:
            with workers(begin, end) as told:
                yield from told


def _told(line: Json) -> str:
    more = f" (and {len(line['broken']) - 1} more)" if len(line["broken"]) > 1 else ""
    seed = line["seed"]
    replay = f"python -m proof schedules --seed {seed} --verbose"
    return f"seed {seed}: {line['broken'][0]}{more}; replay: {replay} (or --shrink)"


@contextmanager
def workers(begin: int, end: int, module: str = "proof.schedules.work", *more: str) -> Iterator[Iterator[Json]]:
    """The lines of a module's workers as they come. None is left behind."""
    count = min(WORKERS, max(1, end - begin))
    folder = tempfile.mkdtemp(prefix="semel-proof-", dir=memory())
    lines: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
    programs = [_worker(module, begin + n, end, count, folder, *more) for n in range(count)]
    readers = [threading.Thread(target=_read, args=(one, lines), daemon=True) for one in programs]
    for reader in readers:
        reader.start()
    try:
        yield _lines(lines, count)
    finally:
        for one in programs:
            one.kill()
        for one, reader in zip(programs, readers, strict=True):
            reader.join()
            one.wait()
            for pipe in (one.stdout, one.stderr):
                if pipe is not None:
                    pipe.close()
        shutil.rmtree(folder, ignore_errors=True)


def _worker(module: str, begin: int, end: int, step: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, str(begin), str(end), str(step), *more]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment())


def environment() -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), root)))
    return {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path}


def _read(program: subprocess.Popen[str], lines: queue.SimpleQueue[Json | None]) -> None:
    assert program.stdout is not None and program.stderr is not None
    for line in program.stdout:
        lines.put(json.loads(line))
    if program.wait() not in (0, -9):
        lines.put({"gone": f"exit code {program.returncode}: {program.stderr.read()[-600:]}"})
    lines.put(None)


def _lines(lines: queue.SimpleQueue[Json | None], count: int) -> Iterator[Json]:
    while count:
        try:
            line = lines.get(timeout=SILENCE)
        except queue.Empty:
            yield {"gone": f"a seed took more than {SILENCE:g} s"}
            return
        if line is None:
            count -= 1
        else:
            yield line


# ---------------------------------------------------------------- one


def _alone(args: argparse.Namespace) -> Proof:
    from proof.schedules.chance import settled

    if not settled():
        os.execve(sys.executable, [sys.executable, "-m", "proof", *sys.argv[1:]], environment())
    from proof.schedules.plan import make, read
    from proof.schedules.run import Folder, run
    from proof.schedules.shrink import shrink

    try:
        plan = make(args.seed) if args.plan is None else read(json.loads(args.plan.read_text("utf-8")))
    except (OSError, ValueError, LookupError, TypeError) as fault:
        raise BadArgument(f"--plan {args.plan} holds no plan: {fault}") from None
    if args.keep is not None:
        plan = plan.only(_numbers(args.keep, len(plan.actions)))
    proof = Proof("schedules")
    started = time.monotonic()
    with Folder() as folder:
        if args.shrink:
            if not run(plan, folder).broken:
                raise BadArgument("it does not fail: there is nothing to make small")
            keep, broken = shrink(plan, lambda fewer: run(fewer, folder).broken)
            _print_plan(plan.only(keep).json(), keep, args)
            proof.violations = [*broken]
            proof.counts = {"actions": len(plan.actions), "kept": len(keep)}
            return proof
        verdict = run(plan, folder, print if args.verbose else None)
        again = run(plan, folder)
    proof.violations = [*verdict.broken]
    if again.digest != verdict.digest:
        proof.violations.append(f"it does not replay: digest {verdict.digest}, and then {again.digest}")
    proof.counts = {"steps": verdict.steps, "virtual seconds": verdict.seconds, "digest": verdict.digest}
    proof.counts["seconds a run"] = round((time.monotonic() - started) / 2, 2)
    return proof


def _numbers(text: str, most: int) -> list[int]:
    """Of actions. Raises BadArgument."""
    try:
        numbers = [int(one) for one in text.split(",") if one.strip()]
    except ValueError:
        numbers = [-1]
    if not all(0 <= one < most for one in numbers):
        raise BadArgument(f"--keep takes numbers of actions, from 0 to {most - 1}, such as 1,4,7; not {text!r}")
    return numbers


def _print_plan(plan: Json, keep: list[int], args: argparse.Namespace) -> None:
    print(f"shape: {json.dumps(plan['shape'])}")
    for number, action in zip(keep, plan["actions"], strict=True):
        print(f"{number:4} {json.dumps(action)}")
    where = f"--seed {args.seed}" if args.plan is None else f"--plan {args.plan}"
    print(f"replay: python -m proof schedules {where} --keep {','.join(map(str, keep)) or ','} --verbose")
