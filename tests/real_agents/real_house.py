"""A gateway as a process (`semel up`) with one real agent, a scripted model, a watcher and a webhook receiver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
from fleet import RealAgent
from models.anthropic import Messages
from models.chat import OpenAI
from models.gemini import Gemini
from models.http import Reply, Request, Server
from models.script import Script
from watcher import Watcher

Json = dict[str, Any]
PATIENCE = 300.0  # seconds: a real agent on a busy machine
ROOM = "main:hook:room"  # its home is a webhook: what is delivered there can be counted
PAGE = "main:web:page"  # its home is the page: the commit is the delivery


class House:
    """`async with House(path, agent, script) as house`."""

    def __init__(self, path: Path, agent: RealAgent, script: Script, permissions: str) -> None:
        self.path, self.agent, self.script = path, agent, script
        self.permissions = permissions
        self.home, self.work = path / "home", path / "work"
        self.posts: list[Json] = []
        self.watchers: dict[str, Watcher] = {}
        self.process: asyncio.subprocess.Process | None = None
        self.told: dict[str, list[str]] = {}  # what people said, by session

    async def __aenter__(self) -> House:
        self.home.mkdir()
        self.work.mkdir()
        async with contextlib.AsyncExitStack() as stack:
            api = {"anthropic": Messages, "openai": OpenAI, "gemini": Gemini}[self.agent.api]
            self.model = await stack.enter_async_context(Server(api(self.script)))
            self.receiver = await stack.enter_async_context(Server(self._received))
            self.http = await stack.enter_async_context(httpx2.AsyncClient(timeout=30, trust_env=False))
            command, env = self.agent.start(self.home, self.model.port)
            self._configure(command, env)
            if self.agent.companion is not None:
                await stack.enter_async_context(self._beside(self.agent.companion(command), env))
            stack.push_async_callback(self._down)
            await self.up()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        assert not self.model.faults, self.model.faults
        assert not self.receiver.faults, self.receiver.faults

    async def _received(self, request: Request, reply: Reply) -> None:
        self.posts.append({"id": request.headers["webhook-id"], **request.json()["data"]})
        await reply.send(200, {})

    @contextlib.asynccontextmanager
    async def _beside(self, command: list[str], env: dict[str, str]) -> AsyncIterator[None]:
        """The program that the agent needs, from when it listens until the house is left."""
        with (self.path / "companion").open("wb") as out:
            process = await asyncio.create_subprocess_exec(*command, env=env, stdout=out, stderr=out, cwd=self.home)
        try:
            port = int(command[command.index("--port") + 1])
            await self.until(lambda: listens(port), "the agent's companion listens")
            yield
        finally:
            process.terminate()
            try:
                async with asyncio.timeout(20):
                    await process.wait()
            except TimeoutError:  # OpenClaw's gateway waits for the turn that its model holds
                process.kill()
                await process.wait()

    def _configure(self, command: list[str], env: dict[str, str]) -> None:
        lines = [
            "[gateway]", 'listen = "127.0.0.1:0"', f"data_dir = {_toml(self.path / 'data')}", 'grace = "2s"',
            "check_agents = false",  # a scenario finds the agent's process by its being alone
            "[agents.main]", f"command = {_toml(command)}", f"cwd = {_toml(self.work)}",
            f"permissions = {_toml(self.permissions)}", f"trace = {_toml(self.path / 'trace')}",
            "[agents.main.env]", *(f"{name} = {_toml(value)}" for name, value in env.items()),
            "[channels.hook]", 'kind = "webhook"', f'url = "http://127.0.0.1:{self.receiver.port}/"',
            "allow_private = true", 'narration = "all"',
        ]  # fmt: skip
        (self.path / "semel.toml").write_text("\n".join(lines))

    # ------------------------------------------------------------ the gateway's process

    async def up(self) -> None:
        """Start the gateway, and wait until it answers."""
        (self.path / "data/gateway.json").unlink(missing_ok=True)
        self.process = await self._semel("up", "--config", str(self.path / "semel.toml"), log=self.path / "log")
        await self.until(self._address, "the gateway answers")
        for watcher in self.watchers.values():
            watcher.url = self.url

    def _address(self) -> bool:
        assert self.process is not None
        assert self.process.returncode is None, self.log()
        with contextlib.suppress(OSError, ValueError):
            self.url: str = json.loads((self.path / "data/gateway.json").read_text())["url"]
            return True
        return False

    async def _semel(self, *args: str, log: Path) -> asyncio.subprocess.Process:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        with log.open("ab") as out:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", "semel", *args, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out,
                env={**kept, "HOME": str(self.home)}, cwd=self.path,
            )  # fmt: skip

    async def kill_gateway(self) -> None:
        """`kill -9` of the gateway alone."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def stop_gateway(self) -> None:
        """Ctrl-C: a clean end."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            assert await self.process.wait() == 0, self.log()

    def agent_pid(self) -> int:
        """The one agent process that the gateway has started."""
        assert self.process is not None
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (each / "cmdline").read_bytes().split(b"\0")
                parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
                ours = any(word == b"semel-guard" or word.startswith(b"semel.") for word in command[:4])
                if parent == self.process.pid and not ours:
                    found.append(int(each.name))
        assert len(found) == 1, found
        return found[0]

    def kill_agent(self) -> None:
        """`kill -9` of the agent's first process alone: what it started lives on, if the gateway lets it."""
        os.kill(self.agent_pid(), signal.SIGKILL)

    async def _down(self) -> None:
        for watcher in self.watchers.values():
            await watcher.stop()
        if self.process is None or self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(20):
                await self.process.wait()
        except TimeoutError:
            await self.kill_gateway()

    def log(self) -> str:
        log = self.path / "log"
        return log.read_text()[-4000:] if log.exists() else ""

    # ------------------------------------------------------------ talking and looking

    async def say(self, session: str, scenario: str, text: str = "please", busy: str | None = None) -> Json:
        """A person says something, and the session is watched from here on; what the gateway answers."""
        whole = f"[[S:{scenario}]] {text}"
        self.told.setdefault(session, []).append(whole)
        body = {"text": whole, "id": f"m{len(self.told[session])}", **({"busy": busy} if busy else {})}
        answer = await self.http.post(f"{self.url}/v1/sessions/{session}/messages", json=body)
        assert answer.status_code == 202, answer.text
        if session not in self.watchers:
            self.watchers[session] = Watcher(self.url, session)
        return dict(answer.json())

    async def get(self, path: str) -> Json:
        answer = await self.http.get(self.url + path)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def session(self, key: str) -> Json:
        """The session, as the listing tells of it."""
        return next(dict(s) for s in (await self.get("/v1/sessions"))["sessions"] if s["key"] == key)

    async def status_of_tools(self) -> Json:
        """What the status says about the agent, as soon as it is known whether it has Semel's tools."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while True:
            (agent,) = (await self.get("/v1/status"))["agents"]
            if agent["tools"] is not None:
                return dict(agent)
            assert asyncio.get_running_loop().time() < end, f"not known after {PATIENCE:g} s: {agent}"
            await asyncio.sleep(0.1)

    async def choose(self, session: str, kind: str, choice: str) -> int:
        """Set the mode or the model (`kind`) of the session's agent; the HTTP status of the answer."""
        answer = await self.http.put(f"{self.url}/v1/sessions/{session}/{kind}", json={kind: choice})
        return answer.status_code

    async def post(self, session: str, what: str, body: Json) -> Json:
        answer = await self.http.post(f"{self.url}/v1/sessions/{session}/{what}", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait for something that is seen here, with a bound."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while not true():
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"{what}: did not come true in {PATIENCE:g} s\n{self.story()}")
            await asyncio.sleep(0.02)

    async def idle(self, session: str) -> None:
        """Wait until the gateway says that nothing runs, waits or is on its way, and the watcher has seen it all."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while True:
            mine = await self.session(session)
            parts = (await self.get("/v1/parts"))["parts"]
            left = [p for p in parts if p["state"] in ("queued", "sending")]
            seen = self.watchers[session].view
            if mine["state"] == "idle" and not mine["waiting"] and not left and seen.rev >= mine["rev"]:
                return
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"not idle after {PATIENCE:g} s: {mine} {left}\n{self.story()}")
            await asyncio.sleep(0.05)

    def shows(self, session: str, text: str) -> Callable[[], bool]:
        """Whether the watcher sees this text in some entry of the agent."""
        view = self.watchers[session].view
        return lambda: any(text in e["text"] for e in view.entries.values() if e["role"] == "agent")

    def remembers(self, text: str) -> bool:
        """Whether the agent has written this down, if it is one that writes before the turn is over."""
        files = self.home.glob(self.agent.memory) if self.agent.memory else ()
        return self.agent.memory is None or any(text in file.read_text() for file in files)

    def story(self) -> str:
        """What is known when something failed."""
        seen = {key: w.view.rows() for key, w in self.watchers.items()}
        return f"{json.dumps(seen, indent=1)}\nasked: {self.script.asked}\nposts: {self.posts}\n{self.log()}"

    async def doctor(self) -> None:
        """`semel doctor --laws`: the books hold."""
        out = self.path / "doctor"
        process = await self._semel("doctor", "--laws", "--data-dir", str(self.path / "data"), log=out)
        async with asyncio.timeout(PATIENCE):
            code = await process.wait()
        assert code == 0, out.read_text()


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _toml(value: object) -> str:
    return json.dumps(str(value) if isinstance(value, Path) else value)
