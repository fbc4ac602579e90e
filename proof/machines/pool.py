"""Work spread over two processes, which end with this one, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from semel.agents.launch import die_with_parent

CORES = 2

T = TypeVar("T")


def spread(work: Callable[[Any], T], items: Sequence[Any], set_up: Callable[..., None], *args: Any) -> Iterator[T]:
    """`work` of each item, as they come ready. `set_up(*args)` runs first in each process. Left early, it ends them."""
    context = multiprocessing.get_context("fork")
    with context.Pool(min(CORES, len(items)), _begin, (os.getpid(), set_up, args)) as pool:
        yield from pool.imap_unordered(work, items)


def _begin(parent: int, set_up: Callable[..., None], args: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started them ends them
    die_with_parent()
    if os.getppid() != parent:  # it died before that
        os._exit(1)
    set_up(*args)
