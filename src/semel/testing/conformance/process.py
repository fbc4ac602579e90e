"""The gateway under test: a process that is started, killed and asked, and the ledger that it leaves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx2

from semel.law.identity import escape_address
from semel.testing.conformance.nursery import Life, nursery
from semel.testing.conformance.rig import ConformanceError, Rig, demand

NAME = "tested"
"""The channel's name in the gateway's configuration."""
PATIENCE = 120.0
"""Seconds that anything may take which happens at once on a machine with nothing else to do."""
Json = dict[str, Any]
T = TypeVar("T")
Point = Literal["received", "committed", "departing", "answered"]


async def until(what: Callable[[], Awaitable[T]], broken: str, patience: float = PATIENCE) -> T:
    """What it gives, once that is true. Raises ConformanceError."""
    end = time.monotonic() + patience
    while not (got := await what()):
        demand(time.monotonic() < end, f"{broken}: not within {patience:g} s")
        await asyncio.sleep(0.05)  # another process is asked: it does not tell by itself
    return got


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(str(value) if isinstance(value, Path) else value)


def configuration(rig: Rig, ports: Mapping[str, int]) -> str:
    """One channel, one person, and an agent that is not asked: a wake waits for longer than a test lasts."""
    agent = [sys.executable, "-m", "semel.agents.demo"]
    lines = ["[agents.main]", 'kind = "acp"', f"command = {toml(agent)}"]
    lines += [f"[channels.{NAME}]", f"kind = {toml(rig.kind)}"]
    lines += [
        f"{key} = {toml(each)}" for key, each in {**rig.settings(ports), **rig.shared}.items() if each is not None
    ]
    if not rig.hooked:  # whoever has the secret may speak there, and nobody has an account
        lines += ["[people.writer]", 'role = "owner"', f"accounts = {toml([f'{NAME}:{rig.person}'])}"]
    lines += ['[sessions."*"]', 'wake = { debounce = "1h", max_wait = "1h" }']
    return "\n".join(lines) + "\n"


class GatewayProcess:
    """`home` holds configuration, data and log, over all of its lives."""

    def __init__(self, home: Path, rig: Rig) -> None:
        self.home, self.rig = home, rig
        self.data = home / "data"
        self.url = ""
        self.kills = 0
        self._life: Life | None = None
        self._doomed = False
        self._client = httpx2.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE)
        home.mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"<GatewayProcess {self.url or 'down'}, killed {self.kills} times>"

    @property
    def ledger(self) -> Path:
        return self.data / "ledger.db"

    @property
    def session(self) -> str:
        """The key of the session where `person` writes."""
        return f"main:{NAME}:{escape_address(self.rig.home())}"

    @property
    def log(self) -> str:
        try:
            return (self.home / "gateway.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def configure(self, ports: Mapping[str, int], config: str = "") -> None:
        path = self.home / "semel.toml"
        path.write_text(config or configuration(self.rig, ports))
        path.chmod(0o600)

    # ------------------------------------------------------------ life and death

    async def start(self, *, die: tuple[Point, int] | None = None, cursor: list[str | None] | None = None) -> bool:
        """Up and answering. False: it died first, where `die` asked for it."""
        told: Json = {"config": str(self.home / "semel.toml"), "data": str(self.data), "channel": NAME}
        told |= {"die": die} if die else {}
        told |= {"cursor": cursor} if cursor is not None else {}
        env = {key: value for key, value in os.environ.items() if not key.startswith(("SEMEL_", "XDG_"))}
        paths = [str(path) for path in self.rig.paths]
        told |= {"log": str(self.home / "gateway.log"), "cwd": str(self.home), "paths": paths}
        self._doomed = die is not None
        self._life = await nursery().start(**told, env={**env, "HOME": str(self.home)})
        await until(self._up, "the gateway did not start")
        if not self.alive:
            self._fell()
            return False
        return True

    async def _up(self) -> bool:
        if not self.alive:
            return True
        try:
            told = json.loads((self.data / "gateway.json").read_text())
        except (OSError, ValueError):
            return False
        self.url = str(told["url"])
        return self._life is not None and bool(told["pid"] == self._life.pid)

    def _fell(self) -> None:
        assert self._life is not None
        if self._life.code != -signal.SIGKILL or not self._doomed:
            raise ConformanceError(f"the gateway ended by itself ({self._life.code}):\n{self.log[-3000:]}")
        self.kills += 1
        self.url = ""

    async def died(self) -> None:
        """Until it is dead, by `kill` or as `start` told it to kill itself."""
        assert self._life is not None
        try:
            await asyncio.wait_for(self._life.wait(), PATIENCE)
        except TimeoutError:
            raise ConformanceError("the gateway did not get as far as where it was to be killed") from None
        self._fell()

    def kill(self) -> None:
        """SIGKILL, at once; `died` is to be awaited."""
        if self._life is not None and self._life.code is None:
            self._doomed = True
            self._life.kill()

    @property
    def alive(self) -> bool:
        return self._life is not None and self._life.code is None

    async def stop(self) -> None:
        """A clean end, or SIGKILL where that takes too long."""
        life, self._life, self.url = self._life, None, ""
        if life is None:
            return
        life.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(life.wait(), 30.0)
        except TimeoutError:
            life.kill()
            await life.wait()

    async def __aenter__(self) -> GatewayProcess:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()
        await self._client.aclose()

    # ------------------------------------------------------------ what it says

    async def get(self, path: str) -> Json:
        answer = await self._client.get(self.url + path)
        if answer.status_code == 404:
            return {}
        demand(answer.status_code == 200, f"GET {path}: HTTP {answer.status_code}: {answer.text}")
        return dict(answer.json())

    async def heard(self) -> list[str]:
        """The texts of what people said in the session, in order."""
        found = await self.get(f"/v1/sessions/{self.session}/entries")
        return [entry["text"] for entry in found.get("entries", ()) if entry["role"] == "user"]

    async def channel(self) -> Json:
        """How it fares: {"state", "counts", "error"?, ...}."""
        found = await self.get("/v1/channels")
        return next(dict(one) for one in found["channels"] if one["name"] == NAME)

    async def online(self) -> None:
        """Until the channel hears."""

        async def hears() -> bool:
            return str((await self.channel())["state"]) == "online"

        try:
            await until(hears, "the channel did not come online")
        except ConformanceError as fault:
            raise ConformanceError(f"{fault}; it says {await self.channel()}") from None

    async def settled(self, patience: float) -> None:
        """Until nothing is left to send: everything is sent, held or rejected."""

        await until(self.idle, "parts were still waiting to leave", patience)

    async def idle(self) -> bool:
        """Whether nothing is left to send; False, too, where it does not answer."""
        try:
            for state in ("queued", "sending", "unknown"):
                if (await self.get(f"/v1/parts?state={state}"))["parts"]:
                    return False
        except httpx2.HTTPError:
            return False
        return True
