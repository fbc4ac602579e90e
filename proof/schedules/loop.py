"""An event loop that owns all chance and all time.

Ready callbacks come from four sides: the gateway's own (tasks and futures of a process), answers of its threads, the
steps of those threads, and the world outside. A seed chooses between them. By half of the seeds the gateway's own
callbacks keep the order that asyncio gives them, and only arrivals from elsewhere are chosen; by the other half every
ready callback may be next. Answers of threads keep their order in both: that order is that of commits. By some seeds
the gateway is slow beside its threads and the world, by some it is fast.

A process is a context variable: what a life of the gateway creates carries it, and runs no more once it is over.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
import zlib
from asyncio import events
from collections import deque
from collections.abc import Callable
from typing import Any

STEP = 1e-5  # seconds that a callback takes
STALL = 1.0  # the longest a callback may take, in seconds: a timer falls due while others are ready


class Stuck(Exception):
    """Nothing is ready and nothing will be: the world waits for itself."""


class Endless(Exception):
    """The steps of a whole run were used up without coming to rest."""


class Life:
    """One run of the process: alive until it is killed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.alive = True

    def __repr__(self) -> str:
        return f"<Life {self.number}{'' if self.alive else ' over'}>"


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)


class SeededLoop(asyncio.BaseEventLoop):
    """`drive` it until a condition holds. `time()` begins at 0; it moves a little with each step, and to the next timer
    when nothing is ready, or by a stall."""

    def __init__(self, seed: int, most_steps: int) -> None:
        super().__init__()
        self.chance = random.Random(f"loop {seed}")
        self.free = self.chance.random() < 0.5
        self.weight = self.chance.choice((0.15, 1.0, 1.0, 4.0))  # of the gateway's own callbacks, against all others
        self.stalls = self.chance.choice((0.0, 0.0, 0.004, 0.03))
        self.most_steps = most_steps
        self.steps = 0
        self.digest = 0
        self.told: Callable[[str], None] | None = None
        self._now = 0.0
        self._own: deque[events.Handle] = deque()  # the gateway's callbacks
        self._answers: deque[events.Handle] = deque()  # of its threads
        self._others: list[events.Handle] = []  # threads that can go on, and the world outside
        self.at_step: Callable[[int], None] = lambda step: None

    def __repr__(self) -> str:
        return f"<SeededLoop step {self.steps} at {self._now:.3f} s>"

    def time(self) -> float:
        return self._now

    # ------------------------------------------------------------ what becomes ready

    def call_soon(self, callback: Any, *args: Any, context: contextvars.Context | None = None) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self._add(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self._answers.append(handle)
        return handle

    def call_elsewhere(self, callback: Any, *args: Any) -> None:
        """A thread goes on: at any moment, beside whatever else is ready."""
        self._others.append(events.Handle(callback, args, self, None))

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """A thread's work is one step, its answer another."""
        future = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except BaseException as fault:
                self.call_soon_threadsafe(settle, future, None, fault)
            else:
                self.call_soon_threadsafe(settle, future, result)

        self.call_elsewhere(work)
        return future

    def _add(self, handle: events.Handle) -> None:
        if handle._context.get(LIFE) is None:  # type: ignore[attr-defined]
            self._others.append(handle)
        else:
            self._own.append(handle)

    # ------------------------------------------------------------ one step

    def drive(self, over: Callable[[], bool]) -> None:
        """Run until it is over. Raises Stuck, Endless."""
        events._set_running_loop(self)
        try:
            while not over():
                self._run_once()
        finally:
            events._set_running_loop(None)

    def _run_once(self) -> None:
        due = self._due()
        if due is not None and (
            due <= self._now or not (self._own or self._answers or self._others) or self._stalls(due)
        ):
            self._now = max(self._now, due)
            while (due := self._due()) is not None and due <= self._now:
                self._add(heapq.heappop(self._scheduled))  # type: ignore[attr-defined]
        handle = self._choose()
        if handle is None:
            raise Stuck
        self.steps += 1
        self._now += STEP
        if self.steps > self.most_steps:
            raise Endless
        life = handle._context.get(LIFE)  # type: ignore[attr-defined]
        if not handle._cancelled and (life is None or life.alive):  # type: ignore[attr-defined]
            if self.told is not None:
                self.told(_named(handle))
            handle._run()  # type: ignore[attr-defined]
        self.at_step(self.steps)

    def _due(self) -> float | None:
        """When the next timer falls due that anybody still waits for."""
        scheduled: list[Any] = self._scheduled  # type: ignore[attr-defined]
        while scheduled and (scheduled[0]._cancelled or _dead(scheduled[0])):
            heapq.heappop(scheduled)
        return scheduled[0]._when if scheduled else None

    def _stalls(self, due: float) -> bool:
        return self.stalls > 0 and due - self._now <= STALL and self.chance.random() < self.stalls

    def _choose(self) -> events.Handle | None:
        own, answers, others = len(self._own), len(self._answers), len(self._others)
        mine = own if self.free else min(own, 1)
        rest = min(answers, 1) + others
        if mine + rest == 0:
            return None
        at = 0 if mine + rest == 1 else self._die(mine, rest)
        self.digest = zlib.crc32(b"%d/%d+%d@%.6f" % (at, mine, rest, self._now), self.digest)
        if at < mine:
            if at == 0:
                return self._own.popleft()
            handle = self._own[at]
            del self._own[at]
            return handle
        at -= mine
        if at < others:
            return self._others.pop(at)
        return self._answers.popleft()

    def _die(self, mine: int, rest: int) -> int:
        """A number below `mine + rest`; those below `mine` have `weight` times the chance of the others."""
        own = self.weight * mine
        at = self.chance.random() * (own + rest)
        if mine and (at < own or not rest):
            return min(mine - 1, int(at / self.weight))
        return mine + min(rest - 1, int(at - own))

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """They are dropped where they stand first."""

    def abandon(self) -> None:
        """The run is over: nothing of it is called any more."""
        self._own.clear()
        self._answers.clear()
        self._others.clear()
        self._scheduled.clear()  # type: ignore[attr-defined]


def _dead(handle: Any) -> bool:
    life = handle._context.get(LIFE)
    return life is not None and not life.alive


def settle(future: asyncio.Future[Any], result: Any = None, fault: BaseException | None = None) -> None:
    """Answer, if anybody still waits."""
    if future.done():
        return
    if fault is None:
        future.set_result(result)
    else:
        future.set_exception(fault)
        future.exception()  # whoever waited for it may be gone


def _named(handle: events.Handle) -> str:
    """Which task or callback it is, for a person who follows."""
    callback: Any = handle._callback  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"task {owner.get_name()}"
    return getattr(callback, "__qualname__", None) or repr(type(callback))
