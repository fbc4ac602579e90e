"""`python -m proof crash`: all points of all processes, a sample of them, or one."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from proof.arguments import BadArgument, whole
from proof.crash import killat
from proof.crash.judge import judge
from proof.crash.lives import Lives, strays
from proof.crash.world import PATIENCE, PROCESSES, World
from proof.report import Proof
from proof.room import memory

SAMPLE = {"gateway": 76, "recovery": 24, "restored": 24, "tools": 12, "exec": 14, "flush": 8, "jobs": 10, "editor": 14}
"""How many points of each process a quick run takes, about."""
MOST = 20  # violations after which nothing new is learnt
JOBS = 4  # each of them mostly waits for another process
LEAST = 20.0  # seconds that any run is given
SLOWER = 20  # times as long as a run without a death, which is how slow this machine is, a run may take
EVERY = 60.0  # seconds between two lines of progress


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--process", choices=PROCESSES, help="only this process is killed")
    parser.add_argument("--point", type=whole(1, 10**9), nargs="+", metavar="N", help="only these points of --process")
    parser.add_argument("--first", action="store_true", help="stop at the first violation")
    parser.add_argument("--jobs", type=whole(), default=JOBS, metavar="N", help=f"so many runs at a time ({JOBS})")
    parser.add_argument("--verbose", action="store_true", help="tell of each point what was found")


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    proof = Proof("crash", work="kills")
    if args.point is not None and args.process is None:
        raise BadArgument("--point needs --process")
    with tempfile.TemporaryDirectory(prefix="semel-crash-") as folder, _two_cores():
        try:
            library = killat.build(Path(folder))
        except killat.NoCompiler as missing:
            proof.missing = str(missing)
            return proof
        with tempfile.TemporaryDirectory(prefix="semel-crash-", dir=memory(), ignore_cleanup_errors=True) as places:
            asyncio.run(_Runs(proof, args, Path(places), library).all(quick))
    return proof


@contextlib.contextmanager
def _two_cores() -> Iterator[None]:
    """It and all that it starts keep to two cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:2])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _coarse_first(one: tuple[str, int]) -> int:
    """Points far apart come first, then those between them: what is broken is found soon."""
    return int(f"{one[1]:032b}"[::-1], 2)


@dataclass
class _Runs:
    """Every run of one proof."""

    proof: Proof
    args: argparse.Namespace
    places: Path
    library: Path
    struck: Counter[str] = field(default_factory=Counter)
    points: dict[str, int] = field(default_factory=dict)
    done: int = 0
    told: float = field(default_factory=time.monotonic)
    slow: float = 0.0  # seconds that the slowest run without a death took
    base: int = 0  # where a reporter is killed that another one is to take over from

    async def all(self, quick: bool) -> None:
        this = asyncio.current_task()
        assert this is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)  # nothing is left behind then, too
        chosen = [self.args.process] if self.args.process else list(PROCESSES)
        async with (
            httpx2.AsyncClient(trust_env=False, verify=False, timeout=20.0) as self.http,
            Lives(self.library) as self.lives,
        ):
            await self._count(chosen)
            todo = [(process, point) for process in chosen for point in self._points(process, quick)]
            todo.sort(key=_coarse_first)
            if not self.over:
                await self._side_by_side(todo)
        self.proof.violations += [f"it was left running: {line}" for line in await strays(self.places)]
        counts = {f"points of {name}": count for name, count in self.points.items()}
        self.proof.counts = {"points": sum(self.points.values()), **counts, "runs": self.done}
        self.proof.counts |= {"kills": sum(self.struck.values()), "not reached": self.done - sum(self.struck.values())}

    @property
    def over(self) -> bool:
        return len(self.proof.violations) >= (1 if self.args.first else MOST)

    def _points(self, process: str, quick: bool) -> list[int]:
        if self.args.point is not None:
            return list(self.args.point)
        last = self.points[process]
        # Odd, so that both ends of a moment are among them.
        stride = max(1, last // SAMPLE[process]) | 1 if quick else 1
        return list(range(1 + stride // 2, last + 1, stride))

    async def _count(self, chosen: list[str]) -> None:
        """The script without a death: how many points each process has, and that all holds then."""
        for process in chosen:
            if process == "flush":
                self.base = (self.points.get("exec") or await self._clean("exec")) * 2 // 3
            self.points[process] = await self._clean(process)

    async def _clean(self, process: str) -> int:
        seen, world = await self._run(process, 0)
        return world.settling or seen.count  # what comes after it is any gateway's work

    async def _side_by_side(self, todo: list[tuple[str, int]]) -> None:
        waiting = iter(todo)

        async def work() -> None:
            for process, point in waiting:
                if self.over:
                    return
                seen, _ = await self._run(process, point)
                self.done += 1
                self.struck[process] += seen.struck
                self._progress(len(todo))

        async with asyncio.TaskGroup() as group:
            for _ in range(self.args.jobs):
                group.create_task(work())

    def _progress(self, of: int) -> None:
        if time.monotonic() - self.told > EVERY:
            self.told = time.monotonic()
            print(f"crash: {self.done} of {of} points, {len(self.proof.violations)} violations", flush=True)

    async def _run(self, process: str, point: int) -> tuple[killat.Seen, World]:
        place = self.places / f"{process}-{point}"
        patience = max(LEAST, SLOWER * self.slow) if point else PATIENCE
        world = World(self.lives, self.http, place, process, point, self.base, patience)
        began = time.monotonic()
        await world.run()
        self.slow = self.slow if point else max(self.slow, time.monotonic() - began)
        found, seen = judge(world), world.control.seen()
        if found:
            at = f" ({seen.what.replace(str(place), '')})" if seen.struck else ""
            point_ = f" --point {point}" if point else ""
            replay = f"python -m proof crash --process {process}{point_} --verbose"
            self.proof.violations.append(f"{process}, point {point}{at}: {'; '.join(found[:4])} | {replay}")
        if self.args.verbose:
            print(f"{process} {point}: {seen.what.replace(str(place), '') or 'nobody was killed'}", end="; ")
            print(f"{seen.count} points, {world.house.deaths} deaths, {time.monotonic() - began:.2f} s")
            print("".join(f"    {one}\n" for one in found), end="", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        return seen, world
