"""Work spread over two processes, which end with this one, however it ends.

Each has a pipe of its own and shares no lock with the other: `multiprocessing.Pool` hangs for ever, now and then, where
it is left early and a process is ended while it holds the lock of the common queue.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from semel.agents.launch import die_with_parent

CORES = 2

T = TypeVar("T")


def spread(work: Callable[[Any], T], items: Sequence[Any], set_up: Callable[..., None], *args: Any) -> Iterator[T]:
    """`work` of each item, as they come ready. `set_up(*args)` runs first in each process. Left early, it ends them.

    What `work` raises comes out here. Raises EOFError where a process ended without a word.
    """
    context = multiprocessing.get_context("fork")
    waiting = iter(items)
    hands: dict[Connection, Any] = {}
    try:
        for _, item in zip(range(CORES), waiting, strict=False):
            ours, theirs = context.Pipe()
            hands[ours] = context.Process(target=_serve, args=(theirs, os.getpid(), work, set_up, args), daemon=True)
            hands[ours].start()
            theirs.close()
            ours.send(item)
        while hands:
            for pipe in wait(list(hands)):
                assert isinstance(pipe, Connection)
                result, fault = pipe.recv()
                if fault is not None:
                    raise fault
                for item in waiting:
                    pipe.send(item)
                    break
                else:
                    _end(pipe, hands.pop(pipe))
                yield result
    finally:
        for pipe, process in hands.items():
            _end(pipe, process)


def _end(pipe: Connection, process: Any) -> None:
    process.kill()
    process.join()
    pipe.close()


def _serve(pipe: Connection, parent: int, work: Callable[[Any], Any], set_up: Callable[..., None], args: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started them ends them
    die_with_parent()
    if os.getppid() != parent:  # it died before that
        os._exit(1)
    set_up(*args)
    while True:
        item = pipe.recv()
        try:
            pipe.send((work(item), None))
        except Exception as fault:
            pipe.send((None, fault))
