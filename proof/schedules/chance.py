"""Every source of chance that the gateway has, under one seed: random, secrets, os.urandom, the wall clock, the pid.

The order of sets of strings comes from PYTHONHASHSEED, which counts only at the start of a process: `settle_hashes`
starts this program anew with it. Sets of tasks are ordered by address, and nothing may hang on that: `hashed` gives
those classes an order of their own.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

EPOCH = 1_750_000_000_000
"""What the wall clock says at the beginning: ms since the Unix epoch."""


def settled() -> bool:
    """Whether the hashes of strings are the same in each run of this program."""
    return os.environ.get("PYTHONHASHSEED") == "0" and sys.flags.hash_randomization == 0


class Dice:
    """What `secrets` and `os.urandom` give, by a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"secrets {seed}")

    def token_bytes(self, nbytes: int | None = None) -> bytes:
        return self.chance.randbytes(32 if nbytes is None else nbytes)

    def token_hex(self, nbytes: int | None = None) -> str:
        return self.token_bytes(nbytes).hex()

    def choice(self, found: Any) -> Any:
        return self.chance.choice(found)

    def randbelow(self, limit: int) -> int:
        return self.chance.randrange(limit)


@contextmanager
def seeded(seed: int, now: Callable[[], float]) -> Iterator[None]:
    """All of it follows the seed meanwhile, and `now` (seconds since the beginning) is the time."""
    dice = Dice(seed)
    pid = itertools.repeat(4242)

    def time_ns() -> int:
        return EPOCH * 1_000_000 + round(now() * 1e9)

    puts: list[tuple[Any, str, Any]] = [
        (secrets, "token_bytes", dice.token_bytes),
        (secrets, "token_hex", dice.token_hex),
        (secrets, "token_urlsafe", dice.token_hex),
        (secrets, "choice", dice.choice),
        (secrets, "randbelow", dice.randbelow),
        (os, "urandom", dice.token_bytes),
        (os, "getpid", lambda: next(pid)),
        (time, "time", lambda: time_ns() / 1e9),
        (time, "time_ns", time_ns),
    ]
    before = [(where, name, getattr(where, name)) for where, name, _ in puts]
    state = random.getstate()
    random.seed(seed)
    for where, name, what in puts:
        setattr(where, name, what)
    try:
        yield
    finally:
        for where, name, what in before:
            setattr(where, name, what)
        random.setstate(state)


# ---------------------------------------------------------------- what the gateway's log tells


class Log:
    """Errors that carry an exception are faults of ours: `faults`. The rest is told where somebody follows."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.told: Callable[[str], None] | None = None

    def structured(self, logger: Any, method: str, event: dict[str, Any]) -> Any:
        fault = event.pop("exc_info", None)
        if fault is True:
            fault = sys.exc_info()[1]
        self._take(method, f"{event}", fault)
        raise structlog.DropEvent

    def emit(self, record: logging.LogRecord) -> None:
        fault = record.exc_info[1] if record.exc_info else None
        self._take(record.levelname.lower(), record.getMessage(), fault)

    def _take(self, level: str, text: str, fault: BaseException | None) -> None:
        if fault is not None and level in ("error", "critical", "exception"):
            self.faults.append(f"the gateway's log: {text}: {fault!r}")
        if self.told is not None:
            self.told(f"log {level}: {text}" + (f": {fault!r}" if fault is not None else ""))


class _Handler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        self.log.emit(record)


@contextmanager
def logged(log: Log) -> Iterator[None]:
    """What the gateway logs goes there meanwhile."""
    before = structlog.get_config()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = [_Handler(log)]
    root.setLevel(logging.WARNING)
    least = logging.INFO if log.told is not None else logging.WARNING
    structlog.configure(
        processors=[log.structured],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)
        root.handlers[:] = handlers
        root.setLevel(level)
