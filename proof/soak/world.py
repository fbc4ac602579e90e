"""The gateway's process, over all of its lives, and every process that comes from it."""

from __future__ import annotations

import contextlib
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.house import House
from proof import marking_agent
from proof.soak.platforms import SAMPLE


@dataclass(frozen=True)
class Found:
    """A process of this world. `what`: gateway, agent, mcp, other, or guard, which ties an agent to its gateway."""

    pid: int
    what: str
    line: str


class World(House):
    """A home under `root`; the environment variable HOME marks all that is started in it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        for name in ("shared", "once", "memory"):
            (root / name).mkdir(exist_ok=True)
        shutil.copy(marking_agent.__file__, root / "shared" / "marking_agent.py")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SEMEL_", "XDG_"))}
        path = os.pathsep.join([str(SAMPLE / "plugin"), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.env = {**kept, "HOME": str(root), "PYTHONPATH": path, "SEMEL_DUMPABLE": "1"}  # its /proc is looked at
        self.kills = 0
        self.since = math.inf  # when it began to accept, by the monotonic clock; it does not yet: at no time
        self.left: list[Found] = []  # what ran on when the gateway had ended cleanly
        self._guards: set[tuple[int, str]] = set()  # pid and start time of all that were ever seen

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ledger(self) -> Path:
        return self.root / "data" / "ledger.db"

    def up(self) -> None:
        super().up()
        self.since = time.monotonic()

    def kill(self) -> None:
        """SIGKILL, at once."""
        self.since = math.inf
        self.process.kill()
        self.process.wait()
        self.kills += 1

    def doctor(self) -> subprocess.CompletedProcess[str]:
        """`semel doctor --laws`, as a person runs it."""
        return subprocess.run(
            [sys.executable, "-m", "semel", "doctor", "--laws", "--config", str(self.config)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, env=self.env,
        )  # fmt: skip

    def descriptors(self) -> int:
        """Open file descriptors of the gateway."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))  # noqa: PTH208

    def held(self) -> Counter[str]:
        """What they are: each kind of socket, pipe and file, and how many."""
        found: Counter[str] = Counter()
        for one in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found[re.sub(r"\[\d+\]|\d+", "", str(one.readlink()))] += 1
        return found

    def processes(self) -> list[Found]:
        """All that were started here and still run. A guard has no environment: it is known by its parent, or from
        before."""
        mark = f"HOME={self.root}".encode()
        found = []
        for name in os.listdir("/proc"):  # noqa: PTH208
            if not name.isdigit() or int(name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                where = Path("/proc", name)
                stat = (where / "stat").read_text().rpartition(")")[2].split()
                state, parent, start = stat[0], int(stat[1]), stat[19]
                line = (where / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                ours = mark in (where / "environ").read_bytes().split(b"\0")
                guard = (int(name), start)  # another gateway's guard may get the pid of one that is gone
                if "semel-guard" in line and (parent == self.process.pid or guard in self._guards):
                    self._guards.add(guard)
                    ours = True
                if ours and state not in "ZX":
                    found.append(Found(int(name), _what(line), line))
        return found

    def strike(self, chance: random.Random) -> str | None:
        """SIGKILL to an agent, or to an MCP process where there is one; what was struck."""
        victims = [one for one in self.processes() if one.what in ("agent", "mcp")]
        wanted = chance.choice(["agent", "mcp"])
        victims = [one for one in victims if one.what == wanted] or victims
        if not victims:
            return None
        victim = chance.choice(victims)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)
        return victim.what

    def clear(self) -> None:
        """Nothing of this world is left running, whatever became of it."""
        if not hasattr(self, "process"):
            return
        if self.process.poll() is None:
            self.down()
        self.left += self.processes()
        for one in self.left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)


def _what(line: str) -> str:
    if " -m semel up" in line:
        return "gateway"
    if " -m semel.tools" in line:
        return "mcp"
    if "semel-guard" in line:
        return "guard"
    return "agent" if "unruly_agent.py" in line else "other"


@contextlib.contextmanager
def world(root: Path) -> Iterator[World]:
    one = World(root)
    try:
        yield one
    finally:
        one.clear()
