"""Identify a process by pid and start time, and kill the processes that a dead gateway left running (Law 10).

The kernel reuses pids, so a recorded pid may belong to an unrelated process by now. A recorded process is killed only
if its start time (`read_identity`) is the recorded one. The processes that it started are found by the environment
variable SEMEL_SPAWN, which they inherit: it contains the pid and start time of the spawn.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PROC = Path("/proc")
IS_LINUX = sys.platform.startswith("linux")


def make_spawn_tag(pid: int, born: str) -> str:
    """Return the value of SEMEL_SPAWN for a spawn and all processes that it starts. It is unique to the spawn.

    `born`: the start time of the spawn's process, as `read_identity` returns it.
    """
    return f"{pid}.{born}"


@cache
def _boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def read_identity(pid: int) -> str | None:
    """Return the start time of a process, as an opaque string; None if no such process runs.

    A zombie counts as gone. Linux: `<boot id>:<start time in clock ticks since boot>` (proc(5), field 22 of stat).
    Elsewhere: `lstart` of ps. The value stays the same for the life of the process, also across exec.
    """
    if not IS_LINUX:
        return _identity_by_ps(pid)
    fields = _read_stat(pid)
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return f"{_boot_id()}:{fields[19].decode()}"


def list_group_members(pgid: int) -> list[int]:
    """Return the pids of a process group, without zombies.

    On a system without /proc, return [pgid] if the group exists, else [].
    """
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:  # also without zombies, and found out without a look at every process
        return []
    except PermissionError:
        if not IS_LINUX:
            return []
    if not IS_LINUX:
        return [pgid]
    pids = []
    for pid in _list_pids():
        fields = _read_stat(pid)
        if fields and int(fields[2]) == pgid and fields[0] not in (b"Z", b"X"):
            pids.append(pid)
    return pids


def measure_groups(groups: Iterable[int]) -> dict[int, int]:
    """Return the resident memory of each of these process groups, in bytes, by its id (pgid). It blocks.

    Memory that processes share is counted for each of them. A group that is gone is left out, and without /proc, each.
    """
    sums: dict[int, int] = {}
    wanted = set(groups)
    for pid in _list_pids() if wanted and IS_LINUX else ():
        fields = _read_stat(pid)
        if len(fields) >= 22 and (group := int(fields[2])) in wanted:
            sums[group] = sums.get(group, 0) + int(fields[21]) * resource.getpagesize()
    return sums


def _read_stat(pid: int) -> list[bytes]:
    """Return the fields of a process's stat file behind its name, from the state on (proc(5)); [] if it is gone."""
    return _read_proc_file(pid, "stat").rpartition(b")")[2].split()


def _list_pids() -> list[int]:
    with os.scandir(PROC) as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]


def _read_proc_file(pid: int, name: str) -> bytes:
    """Return the content of /proc/PID/NAME; b"" if the process is gone, or another user's.

    An agent's end reads a file of every process of the machine. Without `Path`, it takes a third of the time.
    """
    try:
        descriptor = os.open(f"{PROC}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        content = bytearray()
        while part := os.read(descriptor, 65536):
            content += part
        return bytes(content)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _identity_by_ps(pid: int) -> str | None:
    result = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, env={"LC_ALL": "C"}
    )
    state, _, started = result.stdout.strip().partition(" ")
    return started.strip() if result.returncode == 0 and not state.startswith("Z") and started.strip() else None


SPAWN_VARIABLE, JOB_VARIABLE, SOCKET_VARIABLE = "SEMEL_SPAWN", "SEMEL_JOB", "SEMEL_SOCKET"
"""Environment variables that tag a process: with its spawn (`make_spawn_tag`), with the id of its job, or with the
unix socket of the gateway whose agent it is."""


def find_tagged_processes(mark: str, name: str = SPAWN_VARIABLE) -> list[int]:
    """Return the pids of all other processes in whose environment the variable `name` has the value `mark`.

    This works only on Linux; elsewhere it returns [].
    """
    if not IS_LINUX:
        return []
    variable = f"{name}={mark}".encode()
    return [pid for pid in _list_pids() if pid != os.getpid() and _has_variable(pid, variable)]


def _has_variable(pid: int, variable: bytes) -> bool:
    environment = _read_proc_file(pid, "environ")
    return variable in environment and variable in environment.split(b"\0")


def kill_tagged_processes(mark: str, name: str = SPAWN_VARIABLE) -> int:
    """Send SIGKILL to every process that `find_tagged_processes` finds. Return the number of these processes."""
    pids = find_tagged_processes(mark, name)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def kill_group_if_same(pid: int, pgid: int, born: str, patience: float = 2.0) -> bool:
    """Kill the processes that remain of one spawn of a dead gateway. Return whether there were any.

    `pid`, `pgid`, `born`: the recorded process, its group and its start time. The group is killed if the process still
    has that start time. Children in any group are found by SEMEL_SPAWN in their environment, and killed too. This waits
    up to `patience` seconds until all have exited, so that no new agent process runs beside them (Law 10). It blocks;
    call it in a thread.
    """
    found_any = False
    if read_identity(pid) == born and pgid > 1 and pgid != os.getpgid(0):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pgid, signal.SIGKILL)
            found_any = True
    spawn_mark = make_spawn_tag(pid, born)
    found_any = kill_tagged_processes(spawn_mark) > 0 or found_any
    until = time.monotonic() + patience
    while found_any and time.monotonic() < until and (read_identity(pid) == born or kill_tagged_processes(spawn_mark)):
        time.sleep(0.01)
    return found_any
