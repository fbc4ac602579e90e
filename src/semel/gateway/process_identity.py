"""Which process is it, really? A pid alone names whoever holds it now (Law 10: identity checked before a kill)."""

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
    """What SEMEL_SPAWN holds in everything that a spawn starts: the spawn's identity, unlike any other's."""
    return f"{pid}.{born}"


@cache
def _boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def identity(pid: int) -> str | None:
    """When the process was born, as the kernel tells it, or None where no such process runs.

    Linux: `<boot id>:<start time in clock ticks since boot>` (proc(5), field 22 of stat). Elsewhere:
    ps's `lstart`. The value never changes while the process lives, through exec too. A zombie counts as
    gone.
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


def members(pgid: int) -> list[int]:
    """The running processes of a group; zombies are not. Where /proc is missing: [pgid] if it has any."""
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
"""The variables that hold a mark: of an agent's process, and of a background job (its id)."""


def strays(mark: str, name: str = SPAWN) -> list[int]:
    """Processes that carry this mark, group member or not (Linux; elsewhere none can be told)."""
    if not LINUX:
        return []
    wanted = f"{name}={mark}".encode()
    return [
        int(entry.name)
        for entry in PROC.iterdir()
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _carries(entry, wanted)
    ]


def _carries(entry: Path, wanted: bytes) -> bool:
    try:
        return wanted in (entry / "environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return False


def kill_strays(mark: str, name: str = SPAWN) -> int:
    """SIGKILL for every process with this mark; how many there were."""
    found = strays(mark, name)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def kill_group_if_same(pid: int, pgid: int, born: str, patience: float = 2.0) -> bool:
    """Kill what a dead gateway left of one spawn, and only that. True if anything was there to kill.

    The group is killed if its leader is still the process that was born then. A leader that is gone may
    have left others: they are known by the mark in their environment, whatever group they are in. Waits
    up to `patience` seconds until they are gone, so that nothing is loaded beside them (Law 10);
    blocking, call it in a thread.
    """
    found = False
    if identity(pid) == born and pgid > 1 and pgid != os.getpgid(0):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pgid, signal.SIGKILL)
            found = True
    spawn_mark = mark(pid, born)
    found = kill_strays(spawn_mark) > 0 or found
    until = time.monotonic() + patience
    while found and time.monotonic() < until and (identity(pid) == born or kill_strays(spawn_mark)):
        time.sleep(0.01)
    return found
