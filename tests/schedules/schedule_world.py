"""A whole gateway around the scripted agent, on a clock that a test moves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from semel.agents.acp import AcpAgent, kill_group_if_same
from semel.faces.http import Settings, make_app
from semel.faces.http.server import serve_unix
from semel.gateway import Gateway
from semel.gateway.clock import find_zone
from semel.gateway.settings import AgentSettings, GatewaySettings, ScheduleSettings
from semel.ledger.admin.explain import AddressedSession
from semel.ledger.inbound import schedules as rows
from semel.ledger.sqlite.store import Store
from semel.testing import FrozenClock, scripted_agent
from semel.timing.walltime import read_moment

Json = dict[str, Any]
PATIENCE = 60.0


def moment(text: str, tz: str = "UTC") -> int:
    """A local time in ms."""
    return read_moment(text, find_zone(tz)) * 1000


def script(*steps: Any, **more: Any) -> str:
    """A prompt that makes the scripted agent do exactly this."""
    return f"[[script {json.dumps({'steps': list(steps), **more})}]]"


JOBS: list[Json] = []
_FILES: set[Path] = set()


def job(*steps: Any, **more: Any) -> str:
    """A text that makes the scripted agent do exactly this, in whatever frame it is given it."""
    text = f"Do job {len(JOBS):04}."
    JOBS.insert(0, {"when": text, "steps": list(steps), **more})
    for path in _FILES:
        path.write_text(json.dumps(JOBS))
    return text


def every_day(text: str = "Water the plants.", name: str = "daily", **more: Any) -> dict[str, ScheduleSettings]:
    """A configured schedule: at 9 in the morning, in the session `s` unless told otherwise."""
    time = {} if "at" in more else {"cron": "0 9 * * *"}
    return {name: ScheduleSettings(text=text, **{"session": "s", **time, **more})}


class World:
    """`async with World(path, clock) as w`: a running gateway. Its ledger outlives it."""

    def __init__(self, path: Path, clock: FrozenClock, **settings: Any) -> None:
        self.path, self.clock = path, clock
        self.channels = settings.pop("live", {})
        self.work = path / "work"
        self.work.mkdir(exist_ok=True)
        self.log = path / "prompts"
        jobs = path / "jobs"
        _FILES.clear()
        _FILES.add(jobs)
        jobs.write_text(json.dumps(JOBS))
        command = scripted_agent.command(state=path / "agent", log=self.log, script=jobs)
        agent = AgentSettings(name="demo", command=tuple(command), cwd=self.work)
        self.settings = GatewaySettings(
            data_dir=path, ledger=path / "ledger.db", agents={"demo": agent}, grace_s=0.2, **settings
        )
        self.gateway: Gateway

    async def __aenter__(self) -> World:
        store = await asyncio.to_thread(Store.open, self.settings.ledger, clock=self.clock.now)
        agents = {name: AcpAgent(name, a.command, a.cwd, a.env) for name, a in self.settings.agents.items()}
        self.gateway = Gateway(self.settings, store, agents, self.channels, reap=_reap, clock=self.clock)
        await self.gateway.start()
        self.gateway._tasks["uploads"].cancel()  # it sleeps, too, and the clock tells only when the first one wakes
        self._server = await serve_unix(make_app(self.gateway, Settings()), self.gateway.socket)  # for agents' tools
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                report = await self.gateway.doctor()
                assert report["ok"], [b for b in report["books"] if not b["ok"]]
        finally:
            await self.gateway.stop(0.2)
            await self._server.stop()
            await asyncio.to_thread(self.gateway.store.close)

    async def advance_to(self, text: str, tz: str = "UTC", settle: bool = True) -> None:
        """Let the time pass, one sleeper after the other; `settle`: and no faster than turns end."""
        end = moment(text, tz)
        while self.clock.now() < end:
            await self.asleep()
            following = self.clock.next
            step = end if following is None else min(end, following)
            await self.clock.advance((step - self.clock.now()) / 1000)
            await self.asleep()
            for session in await self.gateway.sessions() if settle else ():
                await self.idle(session["key"])

    async def asleep(self) -> None:
        """Wait until the timer has done what is due, and sleeps until what is next."""
        has_heartbeats = bool(self.settings.heartbeat.sessions)

        async def settled() -> bool:
            ready, following = await self.gateway.record.read(rows.list_due, self.clock.now())
            if ready or self.clock.sleepers < (has_heartbeats or following is not None):
                return False
            return following is None or (self.clock.next or following + 1) <= following

        await until(settled)

    async def entries(self, session: str = "s", *roles: str) -> list[Json]:
        found, _ = await self.gateway.entries(session)
        return sorted((e for e in found if not roles or e["role"] in roles), key=lambda e: int(e["seq"]))

    async def texts(self, session: str = "s", *roles: str) -> list[str]:
        return [e["text"] for e in await self.entries(session, *roles)]

    async def idle(self, session: str = "s") -> None:
        """Wait until nothing runs and nothing waits in a session."""

        async def quiet() -> bool:
            found = [s for s in await self.gateway.sessions() if s["key"] == session]
            return bool(found) and found[0]["state"] == "idle"

        await until(quiet)

    async def turns(self, session: str = "s") -> list[int]:
        """The turns that events of this session are bound to, in order of hearing."""
        events = [e["event"] for e in await self.entries(session) if e.get("event")]
        heard = [
            await self.gateway.record.read(lambda tx, e=e: tx.all(AddressedSession, "hearings_of_event", event=e))
            for e in events
        ]
        return [row.turn for rows in heard for row in rows]

    def prompts(self) -> list[str]:
        """What agents were asked."""
        if not self.log.exists():
            return []
        return [json.loads(line)["text"] for line in self.log.read_text().splitlines()]


def _reap(left: Any) -> bool:
    if left.pid is None or left.pgid is None or left.born is None:
        return False
    return kill_group_if_same(left.pid, left.pgid, left.born)


async def until(true: Callable[[], Awaitable[bool]], patience: float = PATIENCE) -> None:
    """Wait for a condition, with a bound."""
    async with asyncio.timeout(patience):
        while not await true():  # noqa: ASYNC110  the condition is in a ledger or in a process
            await asyncio.sleep(0.01)
