"""Jobs: queued logical transactions, and the delivery of their results to the callers.

A *job* is one queued logical transaction (`WorkItem`). An engine runs it on a thread of its own; the caller waits on
its event loop, or on a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_ASYNC_RESULTS = (CoroutineType, GeneratorType, AsyncGeneratorType)


def runs_body(fn: F) -> F:
    """Mark a function `fn(tx, body, *args)` that only runs the body: the transaction is the body's."""
    fn.runs_body = True  # type: ignore[attr-defined]
    return fn


class WorkItem:
    """A queued call of `fn(tx, *args, **kwargs)`, to be run as one transaction.

    The caller is a task on the event loop `loop`; if `loop` is None, the caller is a waiting thread.
    """

    __slots__ = ("args", "callbacks", "done", "error", "fn", "future", "kwargs", "loop", "result")

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
        self.done: threading.Event | None = None  # set when the job is done, for a waiting thread
        self.result: Any = None
        self.error: BaseException | None = None
        self.callbacks: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<WorkItem {getattr(self.fn, '__qualname__', self.fn)} {'failed' if self.error else 'ok'}>"

    def fail(self, error: BaseException) -> None:
        """Record the error of a transaction that did not happen. Discard its result and callbacks."""
        self.result = None
        self.error = error
        self.callbacks = []

    def finish_in_thread(self) -> Any:
        """On the waiting thread, run the `tx.after_commit` callbacks, then return the result or raise the error."""
        if self.error is not None:
            raise self.error
        for call in self.callbacks:
            call()
        return self.result

    def finish_in_loop(self) -> None:
        """On the task's event loop, run the `tx.after_commit` callbacks, then resolve the task's future.

        If a callback fails, the failure is reported and the others still run.
        """
        future, loop = self.future, self.loop
        assert future is not None and loop is not None
        for call in self.callbacks:
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


def _finish_in_loop(jobs: list[WorkItem]) -> None:
    for job in jobs:
        job.finish_in_loop()


def deliver_results(jobs: Iterable[WorkItem]) -> None:
    """Hand the results to the callers. Wake each event loop once, however many jobs it has here."""
    by_loop: dict[asyncio.AbstractEventLoop, list[WorkItem]] = {}
    for job in jobs:
        if job.loop is not None:
            by_loop.setdefault(job.loop, []).append(job)
        elif job.done is not None:
            job.done.set()
    for loop, loop_jobs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_finish_in_loop, loop_jobs)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more


def refuse_async_result(job: WorkItem) -> None:
    """Raise TypeError if the job's function was not a plain function: then nothing of it has run."""
    if not isinstance(job.result, _ASYNC_RESULTS):
        return
    if not isinstance(job.result, AsyncGeneratorType):
        job.result.close()
    raise TypeError(f"{job!r} returned a {type(job.result).__name__}: a transaction is a plain function")
