"""The gateways under test as processes: `Nursery.start` gives one, and tells when it is over."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from functools import cache
from typing import Any

from semel.testing.conformance.rig import ConformanceError, demand

OVER = "the process that starts them, semel.testing.mortal, ended; what it said is on stderr"


class Life:
    """One process. `code` is None while it lives, then as `subprocess.Popen.returncode`."""

    def __init__(self, pid: int, ended: Future[int]) -> None:
        self.pid = pid
        self._ended = ended

    def __repr__(self) -> str:
        return f"<Life {self.pid} {'over' if self.code is not None else 'going on'}>"

    @property
    def code(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Until it is over; its code."""
        return await asyncio.shield(asyncio.wrap_future(self._ended))

    def signal(self, number: int) -> None:
        """Nothing happens to one that is over: its pid is not looked at again."""
        if self.code is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        self.signal(signal.SIGKILL)


class Nursery:
    """`semel.testing.mortal`, which everything is forked from, and a thread that listens to it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "semel.testing.mortal"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._numbers = itertools.count()
        self._born: dict[int, Future[int]] = {}
        self._ended: dict[int, Future[int]] = {}
        self._over = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._listen, name="nursery", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Nursery {self._process.pid}>"

    async def start(self, **told: Any) -> Life:
        """A new process; see `semel.testing.mortal` for what it is told."""
        id, born = next(self._numbers), Future[int]()
        assert self._process.stdin is not None
        with self._lock:
            demand(not self._over, f"no gateway can be started: {OVER}")
            self._born[id] = born
            self._process.stdin.write(json.dumps({"id": id, **told}) + "\n")
            self._process.stdin.flush()
        pid = await asyncio.wrap_future(born)
        with self._lock:
            return Life(pid, self._ended.setdefault(pid, Future()))

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._lock:
                if "born" in told:
                    self._ended[told["pid"]] = Future()
                    self._born.pop(told["born"]).set_result(told["pid"])
                else:
                    self._ended[told["dead"]].set_result(told["code"])
        with self._lock:
            self._over = True
            for born in self._born.values():
                born.set_exception(ConformanceError(f"the gateway did not start: {OVER}"))
            for ended in self._ended.values():
                if not ended.done():
                    ended.set_result(-signal.SIGKILL)  # every process of a nursery ends with it

    def close(self) -> None:
        """Every process of it ends."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._thread.join()
        self._process.stdout.close()


@cache
def nursery() -> Nursery:
    """The one of this process, which ends with it."""
    made = Nursery()
    atexit.register(made.close)
    return made
