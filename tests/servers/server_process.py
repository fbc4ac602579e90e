"""A real server as a process of its own: on free ports, ready when they answer, gone at the end."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
INSTALLED = PROJECT / ".servers"
CERTIFICATE = Path(__file__).parent / "localhost.test.pem"
"""Certificate and key for localhost and 127.0.0.1, signed by itself: give it to `ssl` as its CA, too."""
START = 90.0
"""Seconds for a server to answer: Synapse takes 2 s alone and 10 s beside others."""
FIRST_PORT, PORTS, WORKERS = 20_000, 1_500, 8
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""


class CannotStart(Exception):
    """The message says what to do."""


def installed(server: str, channel: str) -> Path:
    """Where `scripts/channels_install.py` put it. Raises CannotStart."""
    home = INSTALLED / server
    if not (home / ".installed").exists():
        raise CannotStart(f"{server} is not installed: run `make test-channels CHANNELS={channel}`")
    return home


def how(home: Path) -> str:
    """The way in which it is to be started, as its installation found out."""
    return str(json.loads((home / ".installed").read_text())["how"])


def free_ports(count: int) -> list[int]:
    """So many ports of 127.0.0.1 that nobody has.

    Of those that no system gives away by itself, each test process has some: nobody else takes one before its server
    does, or after it was killed.
    """
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    mine = range(FIRST_PORT + own * PORTS, FIRST_PORT + (own + 1) * PORTS)
    found: list[int] = []
    for port in random.sample(mine, len(mine)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == count:
            return found
    raise CannotStart(f"fewer than {count} of the ports {mine[0]} to {mine[-1]} are free")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class ServerProcess:
    """One run of it. `log` is what it wrote."""

    def __init__(
        self, command: Sequence[str | Path], ports: Sequence[int], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Return once all of the ports answer. Raises CannotStart."""
        dies_with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self.log = log
        self._ports = tuple(ports)
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*dies_with_us, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env={**os.environ, **(env or {})}, cwd=log.parent,
            )  # fmt: skip
        deadline = time.monotonic() + START
        while not all(answers(port) for port in ports):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                last = log.read_text(errors="replace").strip().splitlines()[-5:]
                raise CannotStart(
                    f"{command[0]} does not answer (exit {self._process.returncode}):\n" + "\n".join(last)
                )
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def over(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """As a power cut: the whole group, at once. Afterwards its ports are free: a worker may die last."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + GRACE
        while any(map(answers, self._ports)) and time.monotonic() < deadline:
            time.sleep(0.02)

    def stop(self) -> None:
        """Politely; after `GRACE` seconds as `kill`."""
        self._process.terminate()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def pause(self) -> None:
        """Nothing answers any more, until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass


def started(make: Callable[[], ServerProcess]) -> ServerProcess:
    """A free port may be taken before the server has it: three tries, each with ports of its own."""
    for last in (False, False, True):
        try:
            return make()
        except CannotStart:
            if last:
                raise
    raise AssertionError
