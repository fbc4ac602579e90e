"""A job: one call that waits for a ledger thread, and the way its answer goes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any


class Job:
    """`fn(tx, *args, **kwargs)`, asked for on an event loop, or by a thread that waits (`loop` is None)."""

    __slots__ = ("afterwards", "args", "done", "error", "fn", "future", "kwargs", "loop", "result")

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.loop = loop
        self.future: asyncio.Future[Any] | None = loop.create_future() if loop else None
        self.done: threading.Event | None = None  # for a thread that waits
        self.result: Any = None
        self.error: BaseException | None = None
        self.afterwards: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<Job {getattr(self.fn, '__qualname__', self.fn)} {'failed' if self.error else 'ok'}>"

    def fail(self, error: BaseException) -> None:
        """Whatever it came to before: it did not happen."""
        self.result = None
        self.error = error
        self.afterwards = []

    def answer(self) -> Any:
        """Publish, then return the result or raise the error: for the thread that waited."""
        if self.error is not None:
            raise self.error
        for call in self.afterwards:
            call()
        return self.result

    def settle(self) -> None:
        """The same for a task: on its loop, before it goes on. A publisher that fails harms nobody else."""
        future, loop = self.future, self.loop
        assert future is not None and loop is not None
        for call in self.afterwards:
            try:
                call()
            except Exception as error:
                loop.call_exception_handler({"message": f"publishing after {self!r} failed", "exception": error})
        if future.done():  # its task was cancelled; what it asked for has happened all the same
            return
        if self.error is None:
            future.set_result(self.result)
        elif isinstance(self.error, StopIteration):  # no future can carry it
            future.set_exception(RuntimeError(f"{self!r} raised StopIteration"))
        else:
            future.set_exception(self.error)


def _settle(jobs: list[Job]) -> None:
    for job in jobs:
        job.settle()


def deliver(jobs: Iterable[Job]) -> None:
    """Send the answers back: one wake-up for each event loop, however many jobs it gave."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.loop is not None:
            by_loop.setdefault(job.loop, []).append(job)
        elif job.done is not None:
            job.done.set()
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, mine)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more
