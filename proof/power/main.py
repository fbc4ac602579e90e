"""`python -m proof power`: cut the power behind each file operation of a workload, and look what the ledger is then.

`--without-sync` is the control experiment: the store does not wait for the disk (`off`: PRAGMA synchronous = OFF;
`normal`: it waits at checkpoints only; `lying`: the disk says that it synced, and did not), and losses must be found.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from unittest import mock

from proof.arguments import whole
from proof.machines.pool import spread
from proof.power.images import MODES, SECTORS, Files, Medium, image
from proof.power.judge import Judge
from proof.power.recorder import MARK, SYNCS, Recording
from proof.power.workload import play
from proof.report import Proof
from proof.room import memory
from semel.ledger.sqlite import open_ledger

CHUNK = 40  # points that one process takes at a time
NOW = 1_000_000_000  # ms: when the next gateway starts, long after all that the workload did
DRAWS = 2  # of each mode in which dice decide where parts survive
OLDER = 3  # the state whose ledger is put back beside each later mark
QUICK = 0.03  # the share of all images that a quick run makes
CONTROL = 100  # images of the control experiment that each run makes
PHYSICAL = frozenset({"write", "truncate", "sync", "delete"})
TEARS = 15  # of so many writes of the mark one is torn always; an odd number reaches both of its slots


@dataclass(frozen=True)
class Plan:
    """Which images are made: `share` of all (mode, point, draw), chosen by `seed`; or only those of one point.

    Whatever the share is, the power is cut behind each answer to a caller, with all that was not synced there or lost,
    and tears some writes of the mark, in both of its slots.
    """

    sync: str
    seed: int
    draws: int
    share: float = 1.0
    short: bool = False  # the short workload
    point: int | None = None
    mode: str | None = None

    def replay(self, point: int, mode: str) -> str:
        how = "" if self.sync == "full" else f" --without-sync {self.sync}"
        draws = "" if self.draws == DRAWS else f" --draws {self.draws}"
        which = f"{' --short' if self.short else ''} --point {point} --mode {mode}"
        return f"python -m proof power{which} --seed {self.seed}{draws}{how}"


@dataclass
class Found:
    """What a stretch of points came to. `faults`: (point, mode, what is wrong)."""

    images: Counter[str] = field(default_factory=Counter)
    opened: int = 0
    faults: list[tuple[int, str, str]] = field(default_factory=list)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1, help="of the workload's texts and of what survives (1)")
    parser.add_argument("--draws", type=whole(), default=DRAWS, help=f"of surviving sectors, for each point ({DRAWS})")
    parser.add_argument("--point", type=whole(0), help="only behind this operation")
    parser.add_argument("--mode", choices=MODES, help="only this kind of loss")
    parser.add_argument("--short", action="store_true", help="a short workload")
    parser.add_argument("--first", action="store_true", help="stop at the first violation")
    parser.add_argument(
        "--without-sync", nargs="?", const="off", choices=SYNCS[1:], default="full",
        help="the control experiment: a store that does not wait for the disk must be found to lose",
    )  # fmt: skip


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    """Record the workload, rebuild the disk at every point, and judge each image, on two cores."""
    with scratch() as room:
        return _prove(quick, args, room)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the images, in memory if possible: it is the recorded disk that is judged."""
    with tempfile.TemporaryDirectory(prefix="semel-power-", dir=memory()) as folder:
        yield Path(folder)


def _prove(quick: bool, args: argparse.Namespace, room: Path) -> Proof:
    plan = Plan(args.without_sync, args.seed, args.draws, QUICK if quick else 1.0, args.short, args.point, args.mode)
    try:
        recording = record(plan, room)
    except Exception as fault:  # the store answers what cannot be worked with
        why = f"the workload cannot run: {type(fault).__name__}: {_line(fault)}"
        return Proof("power", {"operations": 0}, [f"{why}; replay: python -m proof power --seed {args.seed}"])
    physical = sum(op.kind in PHYSICAL for op in recording.ops)
    counts: dict[str, int | float | str] = {"operations": physical, "acknowledged commits": len(recording.states)}
    violations: list[str] = []
    total = Found()
    for found in run(recording, plan, room):
        total.images += found.images
        total.opened += found.opened
        violations += [f"power cut ({mode}) behind {_where(recording, k)}: {what}; replay: {plan.replay(k, mode)}"
                       for k, mode, what in found.faults]  # fmt: skip
        if violations and args.first:
            break
    counts |= {"images": total.images.total(), "different ones opened": total.opened}
    counts |= {mode: total.images[mode] for mode in MODES}
    if plan.sync == "full" and plan.point is None and not violations:
        counts["losses found by the control"] = losses = control(args.seed, room)
        if not losses:
            violations.append("the control found no loss without synchronous=FULL: this proof cannot see one")
    return Proof("power", counts, violations, work="images")


def record(plan: Plan, room: Path) -> Recording:
    """The workload on a disk of its own."""
    with tempfile.TemporaryDirectory(dir=room) as folder:
        return play(Path(folder), plan.sync, plan.seed, plan.short)


def control(seed: int, room: Path, sync: str = "off", many: int = CONTROL) -> int:
    """Losses among some images of a short workload whose store does not wait for the disk."""
    plan = Plan(sync, seed, 1, short=True, mode="lost")
    recording = record(plan, room)
    points = [k for k, op in enumerate(recording.ops) if op.kind in PHYSICAL]
    return len(stretch(recording, plan, sorted(random.Random(seed).sample(points, many)), room).faults)


# ---------------------------------------------------------------- the points


def run(recording: Recording, plan: Plan, room: Path) -> Iterator[Found]:
    """All stretches, each in one of two processes; one alone in this one."""
    points = [k for k, op in enumerate(recording.ops) if op.kind in PHYSICAL and plan.point in (None, k)]
    chunks = [points[at : at + CHUNK] for at in range(0, len(points), CHUNK)]
    if len(chunks) > 1:
        yield from spread(_one, chunks, _set_up, recording, plan, room)
    else:
        yield from (stretch(recording, plan, chunk, room) for chunk in chunks)


_work: tuple[Recording, Plan, Path]


def _set_up(recording: Recording, plan: Plan, room: Path) -> None:
    global _work
    _work = (recording, plan, room)


def _one(points: list[int]) -> Found:
    recording, plan, room = _work
    return stretch(recording, plan, points, room)


def stretch(recording: Recording, plan: Plan, points: list[int], room: Path) -> Found:
    """Judge the images behind these operations, which are in order."""
    found, medium, told = Found(), Medium(), Told(recording)
    seen: set[bytes] = set()
    at = 0
    with tempfile.TemporaryDirectory(dir=room) as folder:
        judge = Judge(Path(folder), NOW, recording.states, told.older)
        with mock.patch.object(
            open_ledger, "refuse_network_file_system"
        ):  # where the images lie is no matter of theirs
            for k in points:
                for op in recording.ops[at : k + 1]:
                    medium.take(op)
                at = k + 1
                for mode, files in images(plan, medium, k, told.always(k)):
                    found.images[mode] += 1
                    # while the last write is under way, nobody was told of it
                    allowed = told.allowed(k if mode == "torn" else k + 1)
                    digest = _digest(files, allowed)
                    if digest not in seen:
                        seen.add(digest)
                        marked = told.marked(k) if mode in ("killed", "torn") else 0
                        if fault := judge.fault(files, allowed, marked):
                            found.faults.append((k, mode, fault))
    found.opened = judge.opened
    return found


def images(plan: Plan, medium: Medium, k: int, always: Collection[str]) -> Iterator[tuple[str, Files]]:
    """The chosen images of one point. `always`: the modes that no dice decide on here."""
    for mode in MODES if plan.mode is None else (plan.mode,):
        if mode == "torn" and (medium.last is None or medium.last.kind != "write"):
            continue
        for draw in range(plan.draws if mode in SECTORS else 1):
            luck = random.Random(f"{plan.seed} {k} {mode} {draw}")
            if plan.point is not None or mode in always or luck.random() < plan.share:
                yield mode, medium.image(mode, luck)


class Told:
    """What callers knew at a point, and so what a ledger may hold there."""

    def __init__(self, recording: Recording) -> None:
        self.states = recording.states
        acks = [(k, op.at) for k, op in enumerate(recording.ops) if op.kind == "ack"]
        self._at = [k for k, _ in acks]
        self._state = [state for _, state in acks]
        doubts = [k for k, op in enumerate(recording.ops) if op.kind == "doubt"]
        ends = [k for k, op in enumerate(recording.ops) if op.kind == "refused"]
        self._doubts = list(zip(doubts, ends, strict=True))
        self._ops = recording.ops
        self._answers = self._find_answers()
        marks = [k for k, op in enumerate(recording.ops) if op.kind == "write" and op.file == MARK]
        self._tears = frozenset(marks[::TEARS])
        self._commits = recording.commits
        early = [k for k, state in acks if state == OLDER]
        self.older = image(recording.ops[: early[0]], "killed", random.Random(0)) if early else {}

    def always(self, k: int) -> tuple[str, ...]:
        """The modes whose images are made behind operation `k`, whatever share of all images is."""
        answered = ("killed", "lost") if k in self._answers else ()
        return (*answered, "torn") if k in self._tears else answered

    def _find_answers(self) -> set[int]:
        """Operations that are followed by an answer."""
        found, last = set(), -1
        for k, op in enumerate(self._ops):
            if op.kind in PHYSICAL:
                last = k
            elif op.kind in ("ack", "refused"):
                found.add(last)
        return found

    def marked(self, k: int) -> int:
        """The commits that a mark must know of behind operation `k`, where nothing is lost that was written."""
        last = bisect_right(self._at, k) - 1
        return self._commits[self._state[last]] if last >= 0 else 0

    def allowed(self, k: int) -> tuple[str, ...] | None:
        """What may be there when the first `k` operations were made, and every answer before the next one was heard.

        The content behind the last acknowledged commit, or behind the one under way. None: anything that is whole
        (no ledger was promised yet; or a commit is under way that will be refused).
        """
        while k < len(self._ops) and self._ops[k].kind not in PHYSICAL:
            k += 1
        if any(start < k <= end for start, end in self._doubts):
            return None
        last = bisect_right(self._at, k - 1) - 1
        if last < 0:
            return None
        state = self._state[last]
        return self.states[state : state + 2]


def _digest(files: Files, allowed: tuple[str, ...] | None) -> bytes:
    digest = blake2b(repr(allowed).encode(), digest_size=16)
    for name, data in sorted(files.items()):
        digest.update(b"%s %d " % (name.encode(), len(data)))
        digest.update(data)
    return digest.digest()


def _where(recording: Recording, k: int) -> str:
    op = recording.ops[k]
    told = [one for one in recording.ops[:k] if one.kind == "ack"]
    return f"operation {k} ({op.kind} {op.file} at {op.at}), behind {told[-1].file if told else 'nothing'!r}"


def _line(fault: Exception) -> str:
    return " ".join(str(fault).split())[:300]
