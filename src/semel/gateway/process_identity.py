"""Identify a process by pid and start time, and kill what a dead gateway left running (Law 10).

The kernel reuses pids, so a pid alone may name an unrelated process by now. A recorded process is killed only if its
start time (`identity`) is still the recorded one. Processes that it started are found by an environment variable,
SEMEL_SPAWN, which they inherit; it holds the pid and start time of the spawn.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

PROC = Path("/proc")
LINUX = sys.platform.startswith("linux")


def mark(pid: int, born: str) -> str:
    """The value of SEMEL_SPAWN in a spawn and all processes it starts: unique to that spawn."""
    return f"{pid}.{born}"


@cache
def _boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def identity(pid: int) -> str | None:
    """The start time of a process as an opaque string; `None` if no such process runs. A zombie counts as gone.

    Linux: `<boot id>:<start time in clock ticks since boot>` (proc(5), field 22 of stat). Elsewhere: `lstart` of ps.
    The value stays the same for the life of the process, also across exec.
    """
    if not LINUX:
        return _identity_by_ps(pid)
    try:
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return f"{_boot()}:{fields[19].decode()}"


def list_group_members(pgid: int) -> list[int]:
    """The pids of a process group, without zombies. Without /proc: [pgid] if the group exists, else []."""
    if not LINUX:
        try:
            os.killpg(pgid, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [pgid]
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[2]) == pgid and fields[0] not in (b"Z", b"X"):
                    found.append(int(entry.name))
    return found


def _identity_by_ps(pid: int) -> str | None:
    done = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, env={"LC_ALL": "C"}
    )
    state, _, started = done.stdout.strip().partition(" ")
    return started.strip() if done.returncode == 0 and not state.startswith("Z") and started.strip() else None


SPAWN, JOB = "SEMEL_SPAWN", "SEMEL_JOB"
"""Environment variables that tag a process: with the spawn it belongs to (`mark`), or with the id of its job."""


def find_tagged_processes(mark: str, name: str = SPAWN) -> list[int]:
    """Pids of the processes whose environment has `name=mark`, in whatever group. Linux only; [] elsewhere."""
    if not LINUX:
        return []
    wanted = f"{name}={mark}".encode()
    return [
        int(entry.name)
        for entry in PROC.iterdir()
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _has_variable(entry, wanted)
    ]


def _has_variable(entry: Path, wanted: bytes) -> bool:
    try:
        return wanted in (entry / "environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return False


def kill_tagged_processes(mark: str, name: str = SPAWN) -> int:
    """Send SIGKILL to every process with this mark and return their number."""
    found = find_tagged_processes(mark, name)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def kill_group_if_same(pid: int, pgid: int, born: str, patience: float = 2.0) -> bool:
    """Kill what remains of one spawn of a dead gateway. Returns whether there was anything to kill.

    The group is killed if its leader still has the recorded start time. If the leader is gone, its children are found
    by the mark in their environment, whatever group they are in. Waits up to `patience` seconds for them to exit, so
    that no new agent process runs beside them (Law 10). Blocks; call it in a thread.
    """
    found = False
    if identity(pid) == born and pgid > 1 and pgid != os.getpgid(0):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pgid, signal.SIGKILL)
            found = True
    spawn_mark = mark(pid, born)
    found = kill_tagged_processes(spawn_mark) > 0 or found
    until = time.monotonic() + patience
    while found and time.monotonic() < until and (identity(pid) == born or kill_tagged_processes(spawn_mark)):
        time.sleep(0.01)
    return found
