"""A whole gateway around the scripted agent, for tests: real ledger, real sockets, real agent processes."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import pytest

from semel.agents.acp import AcpAgent, kill_group_if_same
from semel.faces.http import Settings, make_app
from semel.faces.http.server import serve_unix
from semel.gateway import Gateway
from semel.gateway.settings import AgentSettings, DestinationSettings, GatewaySettings
from semel.ledger.sqlite.store import Store
from semel.testing import scripted_agent

Json = dict[str, Any]
PATIENCE = 30.0


def script(*steps: Any, **more: Any) -> str:
    """A prompt that makes the scripted agent do exactly this."""
    return f"[[script {json.dumps({'steps': list(steps), **more})}]]"


def record_tokens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens of the agents that will be started, in order."""
    tokens: list[str] = []
    mint = secrets.token_urlsafe

    def record(size: int) -> str:
        tokens.append(mint(size))
        return tokens[-1]

    monkeypatch.setattr("semel.gateway.turns.agent_pool.secrets.token_urlsafe", record)
    return tokens


class World:
    """`async with World(path) as w`: a running gateway; its ledger outlives it."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        self.work = path / "work"
        self.work.mkdir(exist_ok=True)
        self.channels = settings.pop("channels", {})
        if "channel_settings" in settings:
            settings["channels"] = settings.pop("channel_settings")
        permissions = settings.pop("permissions", "ask")
        scripted = scripted_agent.command(state=path / "agent", log=settings.pop("log", None))
        command = settings.pop("command", (*scripted, *settings.pop("args", ())))
        agent = AgentSettings(
            name="demo", command=command, cwd=self.work, env=settings.pop("env", {}), permissions=permissions,
            **settings.pop("agent", {}),
        )  # fmt: skip
        self.settings = GatewaySettings(
            data_dir=path, ledger=path / "ledger.db", agents={"demo": agent}, grace_s=settings.pop("grace_s", 0.2),
            **settings,
        )  # fmt: skip
        self.gateway: Gateway

    async def start(self) -> World:
        store = await asyncio.to_thread(Store.open, self.settings.ledger)
        agents = {
            name: AcpAgent(name, a.command, a.cwd, a.env, mcp_transport=a.mcp_transport)
            for name, a in self.settings.agents.items()
        }
        self.gateway = Gateway(self.settings, store, agents, self.channels, reap=_reap)
        return await self.begin()

    async def begin(self) -> Self:
        """Start the gateway, and serve its tools to agents on the unix socket."""
        await self.gateway.start()
        self._server = await serve_unix(make_app(self.gateway, Settings()), self.gateway.socket)
        return self

    async def stop(self) -> None:
        await self.gateway.stop(0.2)
        await self._server.stop()
        await asyncio.to_thread(self.gateway.store.close)

    async def __aenter__(self) -> World:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.balanced()
        finally:
            await self.stop()

    async def balanced(self) -> None:
        """The books hold."""
        report = await self.gateway.doctor()
        assert report["ok"], [b for b in report["books"] if not b["ok"]]

    async def texts(self, session: str = "s", *roles: str) -> list[str]:
        entries, _ = await self.gateway.entries(session)
        entries.sort(key=lambda e: e["seq"])
        return [e["text"] for e in entries if not roles or e["role"] in roles]

    async def entries(self, session: str = "s") -> list[Json]:
        entries, _ = await self.gateway.entries(session)
        return sorted(entries, key=lambda e: int(e["seq"]))

    async def idle(self, session: str = "s") -> None:
        """Wait until nothing runs and nothing waits in a session."""

        async def quiet() -> bool:
            found = [s for s in await self.gateway.sessions() if s["key"] == session]
            return bool(found) and found[0]["state"] == "idle"

        await until(quiet)

    async def sent(self) -> None:
        """Wait until nothing is on its way to a platform, what the last commit left there included."""
        self.gateway.outbox.kick()
        await asyncio.wait_for(self.gateway.outbox.wait_until_idle(), 30)

    async def ask(self, text: str, session: str = "s", **more: Any) -> list[str]:
        """Say something, wait for the end of the turn; what the agent then has said in the session."""
        await self.gateway.say(session, text, **more)
        await self.idle(session)
        return await self.texts(session, "agent")


def _reap(left: Any) -> bool:
    if left.pid is None or left.pgid is None or left.born is None:
        return False
    return kill_group_if_same(left.pid, left.pgid, left.born)


async def until(true: Callable[[], Awaitable[bool]], patience: float = PATIENCE) -> None:
    """Wait for a condition, with a bound. Looks become rarer: each takes time from what it waits for."""
    pause = 0.005
    async with asyncio.timeout(patience):
        while not await true():
            await asyncio.sleep(pause)
            pause = min(1.2 * pause, 0.05)


def destination(name: str, address: str, channel: str = "web", allow: tuple[str, ...] = ("*",)) -> Json:
    return {name: DestinationSettings(name=name, channel=channel, address=address, allow=allow)}
