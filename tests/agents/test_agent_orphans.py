"""What becomes of agents when the gateway dies, and what the next gateway does with what is left (Law 10)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents_house import LAUNCHER, PATIENCE, House, content, kill_quietly, running, until

from semel.gateway.ports import Launch
from semel.gateway.process_identity import kill_group_if_same, list_group_members, make_spawn_tag, read_identity

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


GATEWAY = """
import asyncio, os, sys
from pathlib import Path
from semel.agents.acp import AcpAgent
from semel.gateway.ports import Launch

async def main(command, record):
    async def on_start(pid, pgid, born):
        Path(record).write_text(f"{pid} {pgid} {born}")
        if os.environ.get("DIE_ON_START"):
            os.kill(os.getpid(), 9)
    agent = AcpAgent("test", command, Path.cwd())
    talk = await agent.open(Launch("s", 1, "t", Path("sock"), None, on_start))
    await talk.prompt([])
    print((await talk.next()).data["content"]["text"], flush=True)
    await asyncio.sleep(100)

asyncio.run(main(sys.argv[2:], sys.argv[1]))
"""


@pytest.fixture
def gateway(house: House) -> Iterator[list[subprocess.Popen[str]]]:
    """Gateways of a test, in processes of their own; ended with it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for one in started:
        one.kill()
        one.communicate()


def start_gateway(house: House, command: list[str], **env: str) -> subprocess.Popen[str]:
    record = str(house.tmp / "record")
    return subprocess.Popen(
        [sys.executable, "-c", GATEWAY, record, *command],
        cwd=house.work,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        text=True,
    )


@linux
async def test_a_gateway_killed_with_9_takes_launcher_and_worker_with_it(
    house: House, gateway: list[subprocess.Popen[str]]
) -> None:
    deaf = "for one in (1, 2, 15): signal.signal(one, signal.SIG_IGN)\n" + LAUNCHER
    gateway.append(start_gateway(house, house.fake(deaf)))
    assert gateway[0].stdout
    worker = int(await asyncio.to_thread(gateway[0].stdout.readline))
    pid, pgid, _ = content(house.tmp / "record").split()
    assert {int(pid), worker} <= set(list_group_members(int(pgid)))
    gateway[0].kill()
    await until(lambda: not list_group_members(int(pgid)), "the whole group is gone")


def guard_of(gateway: int) -> int:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):  # it ends while we look
            stat = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            if int(stat[1]) == gateway and b"semel-guard" in (entry / "cmdline").read_bytes():
                return int(entry.name)
    raise AssertionError("no guard")


@linux
async def test_without_its_guard_an_agent_still_dies_with_the_gateway(
    house: House, gateway: list[subprocess.Popen[str]]
) -> None:
    gateway.append(start_gateway(house, house.fake('hello(); expect("session/prompt"); say("1"); time.sleep(100)')))
    assert gateway[0].stdout
    await asyncio.to_thread(gateway[0].stdout.readline)
    pid = int(content(house.tmp / "record").split()[0])
    os.kill(guard_of(gateway[0].pid), signal.SIGKILL)
    assert running(pid)
    gateway[0].kill()
    await until(lambda: not running(pid), "the kernel has killed it")


@linux
async def test_nothing_is_executed_before_its_spawn_is_recorded(
    house: House, gateway: list[subprocess.Popen[str]]
) -> None:
    ran = house.tmp / "ran"
    command = [sys.executable, "-c", f"open({str(ran)!r}, 'w')"]
    gateway.append(start_gateway(house, command, DIE_ON_START="1"))
    assert await asyncio.to_thread(gateway[0].wait, PATIENCE) == -signal.SIGKILL
    _, pgid, _ = content(house.tmp / "record").split()
    await until(lambda: not list_group_members(int(pgid)), "the launcher is gone")
    assert not ran.exists()

    async def fails(pid: int, pgid: int, born: str) -> None:
        house.spawned.append((pid, pgid, born))
        raise RuntimeError("the ledger is full")

    with pytest.raises(RuntimeError, match="the ledger is full"):
        await house.agent(command).open(Launch("s", 1, "t", Path("sock"), None, fails))
    assert not running(house.spawned[0][0]) and not ran.exists()


# ---------------------------------------------------------------- what a dead gateway left


def start_stray(code: str, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True, env={**os.environ, **env})


SLEEP = "import time; time.sleep(100)"


async def test_only_the_process_that_was_recorded_is_killed() -> None:
    stray = start_stray(SLEEP)
    try:
        born = read_identity(stray.pid)
        assert born and read_identity(stray.pid) == born
        assert kill_group_if_same(stray.pid, stray.pid, born + "0") is False
        assert stray.poll() is None, "another process that has its number was killed"
        assert await asyncio.to_thread(kill_group_if_same, stray.pid, stray.pid, born) is True
        assert stray.wait(PATIENCE) == -signal.SIGKILL
        assert read_identity(stray.pid) is None
        assert kill_group_if_same(stray.pid, stray.pid, born) is False
    finally:
        stray.kill()
        stray.wait()


async def test_where_there_is_no_proc_a_birth_is_read_from_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.gateway.process_identity.IS_LINUX", False)
    stray = start_stray(SLEEP)
    try:
        born = read_identity(stray.pid)
        assert born and read_identity(stray.pid) == born
        assert list_group_members(stray.pid) == [stray.pid]
        assert await asyncio.to_thread(kill_group_if_same, stray.pid, stray.pid, born) is True
        assert stray.wait(PATIENCE) == -signal.SIGKILL
        assert read_identity(stray.pid) is None and list_group_members(stray.pid) == []
    finally:
        stray.kill()
        stray.wait()


@linux
async def test_members_whose_leader_is_gone_are_known_by_their_mark() -> None:
    leader = start_stray(SLEEP)
    born = read_identity(leader.pid)
    assert born
    leader.kill()
    leader.wait()
    left = start_stray(SLEEP, SEMEL_SPAWN=make_spawn_tag(leader.pid, born))
    other = start_stray(SLEEP, SEMEL_SPAWN=make_spawn_tag(leader.pid, born + "1"))
    try:
        assert await asyncio.to_thread(kill_group_if_same, leader.pid, leader.pid, born) is True
        assert left.wait(PATIENCE) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for one in (left, other):
            kill_quietly(one.pid)
            one.wait()
