"""How an MCP process begins and ends: its environment, its agent, its parent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Recorder, Start

Json = dict[str, Any]


async def test_the_agent_closing_stdin_ends_the_process_at_once(gateway: Recorder, start: Start) -> None:
    agent = await start()
    await agent.initialize()
    assert await agent.leave() == 0


async def test_an_answer_on_its_way_when_stdin_closes_is_still_written_and_reported(
    gateway: Recorder, start: Start
) -> None:
    release = gateway.hold()
    agent = await start()
    await agent.request("tools/call", {"name": "send_message", "arguments": {"text": "last"}})
    await gateway.until(lambda: len(gateway.calls) == 1)
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    release.set()
    assert (await agent.read())["result"]["content"][0]["text"] == "sent last"
    assert await agent.leave() == 0
    await gateway.until(lambda: len(gateway.of("answered")) == 1)


async def test_an_agent_that_closes_stdin_is_not_kept_waiting_by_a_silent_gateway(
    gateway: Recorder, start: Start
) -> None:
    gateway.hold()
    agent = await start()
    await agent.request("tools/call", {"name": "send_message", "arguments": {"text": "last"}})
    await gateway.until(lambda: len(gateway.calls) == 1)
    assert await agent.leave() == 0


async def test_an_agent_that_stops_reading_for_good_ends_the_process_quietly(gateway: Recorder, start: Start) -> None:
    source, sink = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "semel.tools"),
        stdin=asyncio.subprocess.PIPE,
        stdout=sink,
        stderr=asyncio.subprocess.PIPE,
        env={"SEMEL_SOCKET": os.fspath(gateway.path), "SEMEL_TOKEN": "secret"},
    )
    os.close(sink)
    os.close(source)
    assert process.stdin is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    async with asyncio.timeout(20):
        _, stderr = await process.communicate()
    assert (process.returncode, stderr) == (0, b"")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the end of a parent is seen on Linux only")
async def test_a_process_whose_parent_was_killed_ends_although_its_stdin_is_still_open(
    gateway: Recorder,
) -> None:
    stdin, keep = os.pipe()
    watch, stdout = os.pipe()
    parent = subprocess.Popen(  # noqa: ASYNC220
        [
            *(sys.executable, "-c"),
            "import subprocess, sys; subprocess.run([sys.executable, '-m', 'semel.tools'])",
        ],
        stdin=stdin,
        stdout=stdout,
        env={"SEMEL_SOCKET": os.fspath(gateway.path), "SEMEL_TOKEN": "secret"},
    )
    os.close(stdin)
    os.close(stdout)
    try:
        os.write(keep, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        async with asyncio.timeout(20):
            assert b'"result":{}' in await asyncio.to_thread(os.read, watch, 4096)
            parent.send_signal(signal.SIGKILL)
            # Only the MCP process still holds this pipe: its end is the process's end.
            assert await asyncio.to_thread(os.read, watch, 4096) == b""
    finally:
        parent.kill()
        parent.wait()
        os.close(keep)
        os.close(watch)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, b"SEMEL_SOCKET and SEMEL_TOKEN"),
        ({"SEMEL_SOCKET": "x", "SEMEL_TOKEN": "t", "SEMEL_PATIENCE": "long"}, b"SEMEL_PATIENCE"),
    ],
)
def test_a_wrong_environment_is_one_clear_line(env: dict[str, str], said: bytes) -> None:
    done = subprocess.run([sys.executable, "-m", "semel.tools"], env=env, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 2
    assert done.stdout == b""
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_what_is_printed_by_mistake_never_reaches_the_agent() -> None:
    code = (
        "import atexit, runpy; atexit.register(print, 'stray', flush=True)\n"
        "runpy.run_module('semel.tools', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"SEMEL_SOCKET": "nowhere", "SEMEL_TOKEN": "t", "SEMEL_PATIENCE": "0.1"},
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert done.stderr == b"stray\n"


def test_the_process_loads_neither_asyncio_nor_the_rest_of_the_house() -> None:
    """It is started with every agent: what it imports is paid each time (docs/decisions/mcp-process.md)."""
    code = "import sys, semel.tools.process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {m for m in loaded if m.startswith("semel.")} <= {
        *("semel.text", "semel.text.json_types", "semel.text.wellformed"),
        "semel.tools",
        *(f"semel.tools.{m}" for m in ("catalogue", "gateway_link", "lines", "process", "outcomes", "protocol")),
    }
    assert not loaded & {"asyncio", "dataclasses", "pathlib", "pydantic", "threading", "msgspec"}
