"""A work item: one call queued for a ledger thread, and how its result gets back to the caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any


class Job:
    """A queued `fn(tx, *args, **kwargs)`. Its caller is a task on an event loop, or a waiting thread (`loop` is
    None)."""

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
        """Record the error and discard any result: the transaction did not happen."""
        self.result = None
        self.error = error
        self.afterwards = []

    def answer(self) -> Any:
        """For a waiting thread: run the `tx.after` callbacks and return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        for call in self.afterwards:
            call()
        return self.result

    def settle(self) -> None:
        """For a waiting task: the same, on its event loop. A failing callback is reported and affects no other."""
        future, loop = self.future, self.loop
        assert future is not None and loop is not None
        for call in self.afterwards:
            try:
                call()
            except Exception as error:
                loop.call_exception_handler({"message": f"publishing after {self!r} failed", "exception": error})
        if future.done():  # its task was cancelled; the transaction still happened
            return
        if self.error is None:
            future.set_result(self.result)
        elif isinstance(self.error, StopIteration):  # a future cannot hold StopIteration
            future.set_exception(RuntimeError(f"{self!r} raised StopIteration"))
        else:
            future.set_exception(self.error)


def _settle(jobs: list[Job]) -> None:
    for job in jobs:
        job.settle()


def deliver(jobs: Iterable[Job]) -> None:
    """Hand the results back to the callers, with one wake-up per event loop."""
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
