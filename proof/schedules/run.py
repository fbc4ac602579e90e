"""Run one plan, and tell what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from proof.room import memory
from proof.schedules import ways
from proof.schedules.chance import EPOCH, Log, logged, seeded
from proof.schedules.judge import judge
from proof.schedules.loop import Endless, SeededLoop, Stuck
from proof.schedules.plan import Plan
from proof.schedules.strands import Shelf, staged
from proof.schedules.world import World
from semel.gateway.api import book_checks
from semel.gateway.record import Watcher
from semel.ledger.sqlite.store import Store

MOST_STEPS = 60_000
TIDY = 25  # runs after which what they left is collected


@dataclass
class Verdict:
    """`digest`: of every choice, and of all that was recorded, sent, asked and seen."""

    seed: int
    broken: list[str]
    digest: str
    steps: int
    seconds: float  # of virtual time
    counts: dict[str, int] = field(default_factory=dict)
    ways: dict[str, int] = field(default_factory=dict)


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not hang on its address."""

    numbers = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.number = next(_Task.numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


class _Numbered:
    """The same for other objects that stand in sets."""

    numbers = itertools.count()

    def __get__(self, one: Any, kind: Any) -> Callable[[], int]:
        def number() -> int:
            if "_number" not in one.__dict__:
                one._number = next(self.numbers)
            return int(one._number)

        return number


Watcher.__hash__ = _Numbered()  # type: ignore[method-assign,assignment]


class Folder:
    """Where the ledger lies: in memory, where the machine has such a place. It is emptied for each run."""

    def __init__(self, place: str | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="semel-schedules-", dir=place or memory()))
        self.ledger = self.path / "ledger.db"
        Store.open_sync(self.ledger, exclusive=False, clock=lambda: EPOCH).close()
        self.shelf = Shelf(self.ledger)
        self.runs = 0
        self.look = apsw.Connection(str(self.ledger), flags=apsw.SQLITE_OPEN_READONLY)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.shelf.close()
        self.look.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def empty(self) -> None:
        """Leave nothing of the run before: no rows, and no result of its checks of the books."""
        self.shelf.empty()
        (self.path / book_checks.FILE).unlink(missing_ok=True)


def run(plan: Plan, folder: Folder, told: Callable[[str], None] | None = None) -> Verdict:
    """One run from its start to its verdict. `told`: each step, in words."""
    loop = SeededLoop(plan.seed, MOST_STEPS)
    tasks: list[asyncio.Task[Any]] = []
    _Task.numbers, _Numbered.numbers = itertools.count(), itertools.count()

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        tasks.append(_Task(work, loop=loop, **more))
        return tasks[-1]

    loop.set_task_factory(factory)
    log = Log()
    if told is not None:
        log.told = loop.told = lambda text: told(f"{loop.steps:6} {loop.time():9.3f}  {text}")
    faults: list[str] = []
    loop.set_exception_handler(lambda _, context: faults.append(f"in the loop: {context}"))
    folder.empty()
    with seeded(plan.seed, loop.time), logged(log), staged(loop, folder.shelf) as stage:
        world = World(plan, loop, stage, folder.ledger, folder.look)
        try:
            main = world.outside.run(world.run(), "world")
            loop.drive(lambda: main.done() or world.enough)
            if main.done():
                main.result()
        except Stuck:
            world.faults.append(f"nothing will ever happen again: {world.restless()}")
        except Endless:
            world.faults.append(f"{MOST_STEPS} steps, and no rest: {world.restless()}")
        broken = [*judge(world), *log.faults, *faults]
        verdict = Verdict(plan.seed, broken, _digest(world), loop.steps, loop.time(), _counts(world), ways.count(world))
        world._end()
        log.told = None
        folder.runs += 1
        _forget(loop, tasks, folder)
    return verdict


def _digest(world: World) -> str:
    """Of the choices, the whole ledger, and what every side knows."""
    sums = hashlib.blake2b(f"{world.loop.digest} {world.loop.steps} {world.loop.time():.6f}".encode(), digest_size=8)
    for table in ("session", "event", "hearing", "turn", "spawn", "entry", "item", "claim", "part", "cursor"):
        for row in world.look.execute(f"SELECT * FROM {table} ORDER BY 1, 2"):
            sums.update(repr(row).encode())
    sums.update(repr([platform.log for platform in world.platforms.values()]).encode())
    sums.update(repr(world.disk.prompts).encode())
    return sums.hexdigest()


def _counts(world: World) -> dict[str, int]:
    """How much happened."""
    one = dict(world.look.execute(
        "SELECT 'turns', count(*) FROM turn UNION ALL SELECT 'lost', count(*) FROM turn WHERE state = 'lost' UNION ALL "
        "SELECT 'events', count(*) FROM event UNION ALL SELECT 'parts', count(*) FROM part UNION ALL "
        "SELECT 'echoes', count(*) FROM claim WHERE outcome = 'echo' UNION ALL "
        "SELECT 'held', count(*) FROM part WHERE state = 'held' UNION ALL "
        "SELECT 'recalled', count(*) FROM turn WHERE how = 'recall' UNION ALL "
        "SELECT 'resumed', count(*) FROM turn WHERE how = 'resume'"
    ))  # fmt: skip
    one["lives"] = len(world.over)
    one["told"] = world.agent.updates
    one["attempts"] = sum(platform.attempts for platform in world.platforms.values())
    return one


def _forget(loop: SeededLoop, tasks: list[asyncio.Task[Any]], folder: Folder) -> None:
    """What still waited is dropped without a word: its process is over."""
    import semel.gateway.outbound.attempt

    loop.abandon()
    loop.set_exception_handler(lambda *_: None)
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if not task.done():
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
        semel.gateway.outbound.attempt._abandoned_calls.clear()
        tasks.clear()
        loop.close()
        if folder.runs % TIDY == 0:
            gc.collect()
    finally:
        sys.unraisablehook = hook
