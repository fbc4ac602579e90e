"""Fork gateways under test as processes, from one server process (`semel.testing.killable_gateway`), and notice when
they end."""

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

FORK_SERVER_ENDED = "the process that starts them, semel.testing.killable_gateway, ended; what it said is on stderr"


class ForkedProcess:
    """A forked process. `code`: None while it runs, then its exit code, like `subprocess.Popen.returncode`."""

    def __init__(self, pid: int, ended: Future[int]) -> None:
        self.pid = pid
        self._ended = ended

    def __repr__(self) -> str:
        return f"<ForkedProcess {self.pid} {'over' if self.code is not None else 'going on'}>"

    @property
    def code(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait until the process ends. Returns its exit code."""
        return await asyncio.shield(asyncio.wrap_future(self._ended))

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has ended: its pid may belong to another process by now."""
        if self.code is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        self.signal(signal.SIGKILL)


class ForkServer:
    """The process `semel.testing.killable_gateway`, from which gateways are forked, and a thread that reads its
    reports."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "semel.testing.killable_gateway"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._numbers = itertools.count()
        self._starting: dict[int, Future[int]] = {}
        self._ended: dict[int, Future[int]] = {}
        self._has_ended = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._listen, name="fork server", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<ForkServer {self._process.pid}>"

    async def start(self, **job: Any) -> ForkedProcess:
        """Fork a process and return it. `job`: its fields, as `semel.testing.killable_gateway` describes them."""
        id, born = next(self._numbers), Future[int]()
        assert self._process.stdin is not None
        with self._lock:
            demand(not self._has_ended, f"no gateway can be started: {FORK_SERVER_ENDED}")
            self._starting[id] = born
            self._process.stdin.write(json.dumps({"id": id, **job}) + "\n")
            self._process.stdin.flush()
        pid = await asyncio.wrap_future(born)
        with self._lock:
            return ForkedProcess(pid, self._ended.setdefault(pid, Future()))

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            report = json.loads(line)
            with self._lock:
                if "born" in report:
                    self._ended[report["pid"]] = Future()
                    self._starting.pop(report["born"]).set_result(report["pid"])
                else:
                    self._ended[report["dead"]].set_result(report["code"])
        with self._lock:
            self._has_ended = True
            for born in self._starting.values():
                born.set_exception(ConformanceError(f"the gateway did not start: {FORK_SERVER_ENDED}"))
            for ended in self._ended.values():
                if not ended.done():
                    ended.set_result(-signal.SIGKILL)  # every forked process ends with the fork server

    def close(self) -> None:
        """End the fork server and all its processes."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._thread.join()
        self._process.stdout.close()


@cache
def shared_fork_server() -> ForkServer:
    """Return the one fork server of this process, which ends with this process."""
    server = ForkServer()
    atexit.register(server.close)
    return server
