"""The gateway of one world: it is started again whenever it ends, and asked through its files whether it is at rest."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from proof.crash.killat import Control
from proof.crash.lives import Life, Lives, environment, search_path
from proof.crash.script import SESSION

TOKEN = "the-token-of-the-hook-0123456789"
LOOK = 0.01  # seconds between two looks at a file that another process writes
MOST = 6  # lives in one world
AGENT = Path(__file__).with_name("agent.py")
REST = """SELECT NOT EXISTS(SELECT 1 FROM session WHERE turn IS NOT NULL OR wake_at IS NOT NULL)
  AND NOT EXISTS(SELECT 1 FROM part WHERE state IN ('queued', 'sending', 'unknown'))
  AND NOT EXISTS(SELECT 1 FROM job WHERE ended IS NULL)"""


def configuration(place: Path, ports: Mapping[str, int], tools: Mapping[str, str]) -> str:
    """semel.toml. `tools`: further variables of the agent, and so of its MCP process."""
    command = [sys.executable, "-I", "-S", str(AGENT), str(place / "agent.log"), str(place / "memory")]
    env = {"PYTHONPATH": search_path(), **tools}
    lines = ["[gateway]", 'grace = "2s"', "[agents.main]", 'kind = "acp"', 'permissions = "allow"']
    lines += [f"command = {json.dumps(command)}", "[agents.main.env]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in env.items()]
    for name, safety in (("post", "reconcilable"), ("bird", "at-most-once")):
        lines += [f"[channels.{name}]", 'kind = "post"', f"port = {ports[name]}", f'safety = "{safety}"']
    lines += ["[channels.hook]", 'kind = "webhook"', f'url = "http://127.0.0.1:{ports["hook"]}/"']
    lines += ["allow_private = true", f'token = "{TOKEN}"', f'session = "{SESSION}"']
    for name, address in (("hook", "out"), ("bird", "nest")):
        lines += [f"[destinations.{name}]", f'channel = "{name}"', f'address = "{address}"', 'allow = ["*"]']
    lines += ["[people.ann]", 'role = "owner"', 'accounts = ["post:ann"]']
    return "\n".join(lines) + "\n"


class House:
    """`controls`: which of its lives are counted, by number, the first is 1. `variables`: of its environment, too."""

    def __init__(
        self, lives: Lives, place: Path, controls: Mapping[int, Control], variables: Mapping[str, str]
    ) -> None:
        self.lives, self.place, self.controls = lives, place, controls
        self.variables = {**environment(place), **variables}
        self.data = place / "data"
        self.ledger = self.data / "ledger.db"
        self.number = 0
        self.deaths = 0
        self.life: Life | None = None
        self.faults: list[str] = []
        self.between: Callable[[], Awaitable[None]] | None = None  # awaited once, before the next life
        self._url = ""
        self._up = asyncio.Event()
        self._doomed = False  # SIGKILL by the script
        self._stopping = False  # SIGTERM by the script

    def __repr__(self) -> str:
        return f"<House life {self.number}, {self.deaths} deaths, {self._url or 'down'}>"

    async def run(self) -> None:
        """Life after life, until this is cancelled, or until one ended by itself (`faults`)."""
        while self.number < MOST:
            self.number += 1
            control = self.controls.get(self.number)
            told = {"killat": str(control.path)} if control else {}
            self.life = life = await self.lives.start("gateway", self.place, env=self.variables, **told)
            looking = asyncio.create_task(self._look(life))
            code = await life.wait()
            looking.cancel()
            self._up.clear()
            self.deaths += code == -signal.SIGKILL
            meant = self._doomed or (control is not None and control.struck)
            if not (code == -signal.SIGKILL and meant) and not (code == 0 and self._stopping):
                self.faults.append(f"the gateway ended by itself, with {code}: {self.log()}")
                return
            self._doomed = self._stopping = False
            if (interlude := self.between) is not None:
                self.between = None
                await interlude()
        self.faults.append(f"the gateway died {MOST} times")

    async def _look(self, life: Life) -> None:
        while True:
            try:
                told = json.loads((self.data / "gateway.json").read_text())
            except (OSError, ValueError):
                told = {}
            if told.get("pid") == life.pid:
                self._url = str(told["url"])
                self._up.set()
                return
            await asyncio.sleep(LOOK)

    def log(self) -> str:
        """The end of what it logged, in a line."""
        try:
            return " ".join((self.place / "gateway.log").read_text(errors="replace")[-600:].split())
        except OSError:
            return "it logged nothing"

    async def url(self) -> str:
        """Once it answers."""
        await self._up.wait()
        return self._url

    def kill(self) -> None:
        """SIGKILL; it is started again."""
        self._doomed = True
        if self.life is not None:
            self.life.signal(signal.SIGKILL)

    async def restart(self) -> None:
        """A clean end, and the next life."""
        await self.url()
        assert self.life is not None
        self._up.clear()
        self._stopping = True
        self.life.signal(signal.SIGTERM)
        await self.url()

    # ------------------------------------------------------------ whether anything is left to do

    def ask(self, sql: str, *values: Any) -> list[Any]:
        """What the ledger says, read beside the gateway. The file is let go at once: where the gateway dies, nobody
        holds it, as nobody would."""
        try:
            with closing(apsw.Connection(str(self.ledger), flags=apsw.SQLITE_OPEN_READONLY)) as db:
                db.set_busy_timeout(1000)
                return list(db.execute(sql, values))
        except apsw.Error:
            return []  # there is no such file yet, or no such table

    async def rest(self) -> None:
        """Until it lives, and no turn runs or is due, and nothing is left to send or to run."""
        while True:
            await self.url()
            if self.ask(REST) == [(1,)] and self._up.is_set():
                return
            await asyncio.sleep(LOOK)

    def rev(self) -> int:
        found = self.ask("SELECT rev FROM session WHERE key = ?", SESSION)
        return int(found[0][0]) if found else 0
