"""A real gateway whose agent runs commands in the background, and what a test asks of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from system_house import DEMO, House, script, until

CONFIG = f"""{DEMO}
[background]
jobs = 2
all = 3
time = "60s"
output = "100kB"
"""
Json = dict[str, Any]


def call(tool: str, /, **arguments: Any) -> Json:
    """The step in which the scripted agent calls this tool."""
    return {"call": tool, "arguments": arguments, "meta": "claude"}


def begin(command: str, /, **more: Any) -> Json:
    return call("run_in_background", command=command, **more)


def rest(house: House, session: str) -> None:
    """Wait until no turn runs there, or is about to. What wakes nobody may wait."""
    until(lambda: (found := house.session(session)) is not None and found["state"] == "idle", f"{session} rests")


def ask(house: House, session: str, *steps: Any) -> list[str]:
    """One turn of these steps: what its tools answered, in order."""
    house.say(session, script(*steps))
    rest(house, session)
    return answers(house, session)[-sum(isinstance(step, dict) and "call" in step for step in steps) :]


def answers(house: House, session: str) -> list[str]:
    """What the tools answered in this session."""
    items = house.get(f"/v1/sessions/{session}/history")["items"]
    return [one["text"] for one in items if one["kind"] == "tool"]


def jobs(house: House, session: str) -> list[Json]:
    """Its jobs, in the order they began."""
    return list(reversed(house.get(f"/v1/sessions/{session}/jobs")["jobs"]))


def start(house: House, session: str, command: str, **more: Any) -> Json:
    """A job that was started, and whose start was heard."""
    (told,) = ask(house, session, begin(command, **more))
    assert told.startswith("started in the background as job-"), told
    return until(lambda: next((j for j in jobs(house, session)[-1:] if j["state"] != "asked"), None), "its start")


def events(house: House, session: str, kind: str) -> list[Json]:
    return [one for one in house.entries(session) if one.get("kind") == kind]


def ends(house: House, session: str) -> list[Json]:
    """The events that told an end."""
    return [one for one in house.entries(session) if one.get("kind") in ("exec.finished", "exec.lost")]


def ended(house: House, session: str, count: int = 1) -> list[Json]:
    """The same, once there are so many and the session rests."""
    until(lambda: len(ends(house, session)) >= count, f"{count} ends in {session}")
    rest(house, session)
    return ends(house, session)


def woken(house: House, session: str) -> int:
    """How many turns answered something that was not a script."""
    return sum(one["text"].startswith("You said: ") for one in house.entries(session) if one["role"] == "agent")


def processes(job: Json) -> list[int]:
    """The processes of a job that live: they carry its id."""
    return [pid for pid, env in _environments() if f"SEMEL_JOB={job['id']}".encode() in env.split(b"\0")]


def supervisor(job: Json) -> int:
    """The process that watches over it."""
    found = [pid for pid, line in _lines() if job["id"].encode() in line and b"semel.tools.exec.supervisor" in line]
    assert len(found) == 1, (job, found)
    return found[0]


def tool_servers(house: House) -> list[int]:
    """The MCP processes of its agents."""
    socket = f"SEMEL_SOCKET={house.data}".encode()
    ours = {pid for pid, env in _environments() if socket in env}
    return [pid for pid, line in _lines() if pid in ours and line.split(b"\0")[-2:-1] == [b"semel.tools"]]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _environments() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "environ").read_bytes()


def _lines() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and alive(int(entry.name)):
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "cmdline").read_bytes()


@contextlib.contextmanager
def nothing_begins(house: House) -> Iterator[None]:
    """While this lasts, a job cannot get past its row: the spool is held."""
    place = house.data / "jobs"
    place.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(place / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
