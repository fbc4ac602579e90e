"""`semel up` as a process, with the scripted agent and a Matrix account; it can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
from matrix_house import House
from python_process import Process, run_python, start_python

from semel.law.identity import escape_address
from semel.testing import scripted_agent

PATIENCE = 90.0
CONFIG = """
[agents.main]
command = {agent}

[channels.chat]
kind = "matrix"
homeserver = "{url}"
user = "{bot}"
password = "env:MATRIX_PASSWORD"

[people.ada]
role = "owner"
accounts = ["chat:{owner}"]

[people.ben]
accounts = ["chat:{member}"]

[destinations.ben]
channel = "chat"
address = "{member}"
allow = ["*"]
"""


async def until(what: Callable[[], Awaitable[Any]], why: str, seconds: float = PATIENCE) -> Any:
    """What it finds, once it finds it."""
    end = time.monotonic() + seconds
    while not (found := await what()):
        assert time.monotonic() < end, f"{why}: not within {seconds:.0f} s"
        await asyncio.sleep(0.05)
    return found


async def wait_for_texts(house: House, room: str, count: int) -> list[str]:
    """Return the texts of the bot in a room, once there are `count`."""

    async def said() -> list[str]:
        texts = await house.alice.texts(room, house.bot.name)
        return texts if len(texts) >= count else []

    return list(await until(said, f"{count} answers"))


def session_key(address: str) -> str:
    """Return the key of the session of a room or a thread."""
    return f"main:chat:{escape_address(address)}"


class Gateway:
    """One data directory; `up` starts it, again after `kill`."""

    def __init__(self, home: Path, url: str, bot: str, owner: str, member: str) -> None:
        self.home = home
        self.url = ""
        home.mkdir(parents=True, exist_ok=True)
        agent = json.dumps(scripted_agent.command())
        (home / "semel.toml").write_text(CONFIG.format(agent=agent, url=url, bot=bot, owner=owner, member=member))
        self._process: Process | None = None

    @property
    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace")

    async def up(self) -> None:
        """Until the channel is online."""
        self._process = self._start()
        self.url = await until(self._told, "the gateway's start")
        await until(self._online, "the channel's connection")

    def _start(self) -> Process:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SEMEL_", "XDG_"))}
        with (self.home / "log").open("ab") as log:
            return start_python(
                *("-m", "semel", "up", "--config", "semel.toml", "--data-dir", "data"),
                *("--listen", "127.0.0.1:0", "--log", "json"),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home,
                env={**kept, "HOME": str(self.home), "MATRIX_PASSWORD": "pw"},
            )  # fmt: skip

    async def _told(self) -> str:
        assert self._process is not None and self._process.poll() is None, self.log
        try:
            told = json.loads((self.home / "data" / "gateway.json").read_text())
        except (OSError, ValueError):
            return ""
        return str(told["url"]) if told["pid"] == self._process.pid else ""

    async def _online(self) -> bool:
        [channel] = (await self.get("/v1/channels"))["channels"]
        return bool(channel["state"] == "online")

    async def get(self, path: str) -> Any:
        async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.get(self.url + path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def entries(self, session: str) -> list[dict[str, Any]]:
        """In order; none where there is no such session."""
        try:
            found = (await self.get(f"/v1/sessions/{session}/entries"))["entries"]
        except AssertionError:
            return []
        return sorted(found, key=lambda entry: int(entry["seq"]))

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)

    def end(self) -> None:
        """However it stands."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def doctor(self) -> str:
        """What `semel doctor --laws` says; the gateway must not run."""
        done = run_python("-m", "semel", "doctor", "--laws", "--data-dir", "data", cwd=self.home, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
