"""What the tests of agents share: real agent processes, and a way to wait for what they say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semel.agents.acp import AcpAgent, AcpConversation
from semel.gateway.ports import Answered, Asked, Died, Launch, Signal, Update
from semel.gateway.process_identity import find_tagged_processes, list_group_members
from semel.testing import scripted_agent

PATIENCE = 20.0  # seconds any single wait may take on a busy machine

PRELUDE = """
import json, os, signal, subprocess, sys, time
def out(**m): sys.stdout.write(json.dumps({"jsonrpc": "2.0", **m}) + "\\n"); sys.stdout.flush()
def update(session="s1", **u): out(method="session/update", params={"sessionId": session, "update": u})
def say(text, **more):
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}, **more)
def read():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)
def expect(method):
    while True:
        m = read()
        if m.get("method") == method: return m
def hello(name="fake", caps=None, new=None):
    m = expect("initialize")
    out(id=m["id"], result={"protocolVersion": 1, "agentInfo": {"name": name}, "agentCapabilities": caps or {}})
    m = expect("session/new")
    out(id=m["id"], result=new or {"sessionId": "s1"})
"""


# A launcher as gemini and qwen have it: the spawned pid waits for a worker that holds the pipes and speaks ACP.
LAUNCHER = """
if len(sys.argv) == 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(subprocess.run([sys.executable, __file__, "worker"]).returncode)
hello()
while True:
    m = expect("session/prompt")
    say(str(os.getpid()))
    out(id=m["id"], result={"stopReason": "end_turn"})
"""


def running(pid: int) -> bool:
    """A zombie does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


async def until(condition: Callable[[], Any], what: str, within: float = PATIENCE) -> Any:
    """Wait on a condition with a bound; its value."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        if value := condition():
            return value
        await asyncio.sleep(0.01)
    raise AssertionError(f"in vain: {what}")


def content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@dataclass
class Heard:
    """A turn as the gateway would take it."""

    signals: list[Signal] = field(default_factory=list)

    @property
    def end(self) -> Signal:
        return self.signals[-1]

    def updates(self, kind: str | None = None) -> list[dict[str, Any]]:
        found = [one.data for one in self.signals if isinstance(one, Update)]
        return [one for one in found if kind is None or one.get("sessionUpdate") == kind]

    def merge_call(self) -> dict[str, Any]:
        """The last tool call as its updates leave it."""
        merged: dict[str, Any] = {}
        for update in self.updates("tool_call") + self.updates("tool_call_update"):
            merged.update(update)
        return merged

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(one["content"]["text"] for one in self.updates(kind))

    def asked(self) -> list[Asked]:
        return [one for one in self.signals if isinstance(one, Asked)]


async def hear(
    talk: AcpConversation, until: Callable[[Signal], bool] = lambda s: isinstance(s, Answered | Died)
) -> Heard:
    """Signals up to the first that fits: by default the end of the prompt or of the agent."""
    heard = Heard()
    async with asyncio.timeout(PATIENCE):
        while True:
            signal = await talk.next()
            heard.signals.append(signal)
            if until(signal) or isinstance(signal, Died):
                return heard


async def turn(talk: AcpConversation, text: str, allow: str | None = "allow") -> Heard:
    """Prompt and hear it out; every permission request is answered with this option."""
    await talk.prompt([{"type": "text", "text": text}])
    whole = Heard()
    while True:
        heard = await hear(talk, lambda s: isinstance(s, Answered | Died | Asked))
        whole.signals += heard.signals
        if not isinstance(heard.end, Asked):
            return whole
        await talk.answer(heard.end.id, allow)


def script(*steps: Any, **more: Any) -> str:
    """A prompt that makes the scripted agent do these steps."""
    return f"[[script {json.dumps({'steps': list(steps), **more})}]]"


class House:
    """Starts agents and, at the end, sees that nothing of them is left."""

    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp
        self.state = tmp / "state"
        self.tools_url: str | None = None  # of the MCP server over HTTP
        self.tools = [sys.executable, str(Path(__file__).parent / "mcp_house.py"), str(tmp / "calls")]
        self.work = tmp / "work"
        self.work.mkdir()
        self.talks: list[AcpConversation] = []
        self.spawned: list[tuple[int, int, str]] = []

    def calls(self) -> list[dict[str, Any]]:
        """The tool calls that `tools` got."""
        path = self.tmp / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def agent(self, command: list[str], **more: Any) -> AcpAgent:
        more.setdefault("timeout", PATIENCE)
        return AcpAgent("test", command, self.work, more.pop("env", {}), **more)

    def fake(self, code: str) -> list[str]:
        """The command of an agent that is this Python code, after PRELUDE."""
        path = self.tmp / f"fake-{len(list(self.tmp.glob('fake-*')))}.py"
        path.write_text(PRELUDE + textwrap.dedent(code))
        return [sys.executable, "-u", str(path)]

    async def open(
        self, agent: AcpAgent, memory: str | None = None, modes: dict[str, Any] | None = None
    ) -> AcpConversation:
        async def on_start(pid: int, pgid: int, born: str) -> None:
            self.spawned.append((pid, pgid, born))

        spawn = len(self.spawned) + 1
        launch = Launch(
            "main:test", spawn, "tok-secret", self.tmp / "sock", memory, on_start, self.tools_url, modes=modes
        )
        async with asyncio.timeout(2 * PATIENCE):
            talk = await agent.open(launch)
        self.talks.append(talk)
        return talk

    async def scripted(self, *arguments: str, memory: str | None = None, **more: Any) -> AcpConversation:
        command = [*scripted_agent.command(state=self.state), *arguments]
        return await self.open(self.agent(command, **more), memory)

    async def opened(self, code: str, memory: str | None = None, **more: Any) -> AcpConversation:
        modes = more.pop("modes", None)
        return await self.open(self.agent(self.fake(code), **more), memory, modes)

    async def close(self) -> None:
        for talk in self.talks:
            async with asyncio.timeout(PATIENCE):
                await talk.close(1.0)
        for pid, pgid, born in self.spawned:
            assert not list_group_members(pgid), "a group outlived its end"
            assert not find_tagged_processes(f"{pid}.{born}"), "a process outlived its spawn"


def kill_quietly(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 9)


def measure_cpu_seconds(command: Sequence[str]) -> float:
    """Processor time of an agent that starts, answers `initialize` and ends: the best of three runs."""
    hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, input=hello, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert '"semel-demo"' in done.stdout
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)
