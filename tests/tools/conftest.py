"""A real MCP process, and the HTTP application on a unix socket with a gateway that records what it is asked."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from semel.faces.http import Settings, make_app
from semel.faces.http.server import UnixServer, serve_unix

Json = dict[str, Any]
BOUND = 20.0


class Recorder:
    """A gateway that keeps what it is asked. `on_call` decides the answer of a tool call; it may wait."""

    def __init__(self, path: Path):
        self.path = path
        self.asked: list[tuple[str, Json]] = []
        self.changed = asyncio.Condition()
        self.names: list[str] = []
        self.instructions = "Speak up."
        self.on_call: Callable[[Json], Awaitable[Json]] | None = None
        self.server: UnixServer | None = None

    async def start(self) -> None:
        gateway: Any = self
        self.server = await serve_unix(make_app(gateway, Settings()), self.path)

    async def stop(self, grace: float = 0.0) -> None:
        if self.server is not None:
            await self.server.stop(grace)
            self.server = None

    async def tools(self, method: str, params: Json) -> Json:
        """The gateway's `ToolCalls`."""
        async with self.changed:
            self.asked.append((method, params))
            self.changed.notify_all()
        if method == "hello":
            return {"session": "s", "home": True, "names": self.names, "instructions": self.instructions}
        if method == "call":
            answer = {"ok": True, "text": "sent", "data": {}}
            return await self.on_call(params) if self.on_call else answer
        return {}

    def of(self, method: str) -> list[Json]:
        return [params for asked, params in self.asked if asked == method]

    @property
    def calls(self) -> list[Json]:
        return self.of("call")

    def hold(self) -> asyncio.Event:
        """Take calls, and do not answer them until the event is set, which this returns."""
        release = asyncio.Event()

        async def wait(params: Json) -> Json:
            await release.wait()
            return {"ok": True, "text": f"sent {params['arguments']['text']}", "data": {}}

        self.on_call = wait
        return release

    async def until(self, so: Callable[[], bool]) -> None:
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(so), BOUND)


class Agent:
    """The agent's end of one MCP process: raw lines out, parsed lines in."""

    def __init__(self, process: asyncio.subprocess.Process):
        self.process = process
        self.number = 0

    async def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        await self.process.stdin.drain()

    async def send(self, message: Any) -> None:
        await self.write(json.dumps(message).encode() + b"\n")

    async def read(self) -> Json:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), BOUND)
        assert line.endswith(b"\n"), f"the MCP process closed stdout after {line!r}"
        message: Json = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    async def request(self, method: str, params: Json | None = None) -> int:
        self.number += 1
        asked = {"jsonrpc": "2.0", "id": self.number, "method": method}
        await self.send(asked if params is None else {**asked, "params": params})
        return self.number

    async def ask(self, method: str, params: Json | None = None) -> Json:
        """The answer to one request, where no other is open."""
        number = await self.request(method, params)
        answer = await self.read()
        assert answer["id"] == number
        return answer

    async def initialize(self, version: str = "2025-11-25") -> Json:
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        answer = await self.ask("initialize", params)
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    async def call(self, name: str, arguments: Json, **extra: Any) -> Json:
        """The result of one tool call, where no other is open."""
        result = (await self.ask("tools/call", {"name": name, "arguments": arguments, **extra}))["result"]
        assert len(result["content"]) == 1
        return {"text": result["content"][0]["text"], "isError": result["isError"]}

    async def leave(self) -> int:
        """Close stdin as an agent does, and see that nothing but answers was ever written anywhere."""
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        self.process.stdin.close()
        code = await asyncio.wait_for(self.process.wait(), BOUND)
        assert await self.process.stderr.read() == b""
        return code

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


Start = Callable[..., Awaitable[Agent]]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Recorder]:
    recorder = Recorder(tmp_path / "run" / "gateway.sock")
    await recorder.start()
    yield recorder
    await recorder.stop()


@pytest.fixture
async def start(gateway: Recorder) -> AsyncIterator[Start]:
    """Start an MCP process for that gateway; all are ended with the test."""
    agents: list[Agent] = []

    async def start(**env: str) -> Agent:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", "semel.tools"),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=16 << 20,
            env={"SEMEL_SOCKET": os.fspath(gateway.path), "SEMEL_TOKEN": "secret", **env},
        )
        agents.append(Agent(process))
        return agents[-1]

    yield start
    for agent in agents:
        if agent.process.returncode is None:
            agent.process.kill()
        await agent.process.communicate()
