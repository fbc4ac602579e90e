"""One soak from its start to its end: the storm, the stretch without kills, the rest."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bench.house import Client
from proof.marking_agent import MARK
from proof.soak import plan
from proof.soak.evidence import Evidence, gather
from proof.soak.gauges import Gauges
from proof.soak.platforms import Platform, platforms
from proof.soak.traffic import SECRET, People, Watched
from proof.soak.world import World

KILL_EVERY = 20.0
"""Seconds that the gateway works until the next SIGKILL."""
STRIKE_EVERY = 3.0
"""Seconds, on average, from one SIGKILL of an agent or an MCP process to the next."""
PATIENCE = 240.0
"""Seconds until all is at rest."""
Json = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How much of everything. `storm` and `calm` are seconds, `rate` messages a second; an agent that has nothing to do
    for `idle` seconds is ended."""

    sessions: int
    storm: float
    calm: float
    rate: float
    seed: int
    kill_every: float = KILL_EVERY
    idle: float = 15.0


class Soak:
    """One run. Afterwards `broken` tells what of the house did not come to rest, and what `semel doctor` found."""

    def __init__(self, world: World, size: Size) -> None:
        self.world, self.size = world, size
        self.channels = plan.channels()
        self.sessions = plan.sessions(size.sessions, self.channels)
        self.traffic = plan.Traffic(size.seed, self.sessions)
        self.chance = random.Random(f"{size.seed} kills")
        self.platforms: dict[str, Platform] = platforms(self.channels, self.sessions, size.seed)
        self.watched = [Watched(one) for one in self.sessions]
        self.people = People(world, self.platforms, self.watched, size.seed)
        self.gauges = Gauges(world)
        self.strikes: Counter[str] = Counter()
        self.calm_from = 0  # monotonic ns
        self.rested: Counter[str] = Counter()  # what a gateway holds that has worked, and is at rest
        self.fresh: Counter[str] = Counter()  # and one that has just started
        self.broken: list[str] = []

    async def run(self) -> Evidence:
        """All of it."""
        async with self._platforms() as urls:
            root, idle = self.world.root, self.size.idle
            told = plan.configuration(root, self.channels, urls, SECRET, idle) + plan.people(self.sessions)
            self.world.config.write_text(told)
            await asyncio.to_thread(self.world.up)
            watching = [asyncio.create_task(one.watch(self.world)) for one in self.watched]
            gauging = asyncio.create_task(self.gauges.watch())
            try:
                await self._storm()
                await self._calm()
                await _end(gauging)
                return await self._rest()
            finally:
                self.people.close()
                await _end(gauging, *watching)
                await asyncio.to_thread(self.world.clear)

    @contextlib.asynccontextmanager
    async def _platforms(self) -> AsyncIterator[dict[str, str]]:
        async with contextlib.AsyncExitStack() as stack:
            yield {name: await stack.enter_async_context(one.serve()) for name, one in self.platforms.items()}

    # ---------------------------------------------------------------- what happens

    async def _storm(self) -> None:
        """Traffic, and kills, until the last kill is over."""
        traffic = asyncio.create_task(self._talk())
        strikes = asyncio.create_task(self._strike())
        try:
            end = time.monotonic() + self.size.storm
            while time.monotonic() < end:
                await asyncio.sleep(self.size.kill_every)
                self.gauges.eve()
                self.world.kill()
                await asyncio.to_thread(self.world.up)
        finally:
            await _end(traffic, strikes)

    async def _calm(self) -> None:
        """The same traffic, and nobody kills anything but the agents themselves."""
        self.calm_from = time.monotonic_ns()
        traffic = asyncio.create_task(self._talk())
        try:
            await asyncio.sleep(self.size.calm)
        finally:
            await _end(traffic)

    async def _talk(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self.traffic.pause(self.size.rate))
            self.people.say(self.traffic.next())

    async def _strike(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.5, 1.5) * STRIKE_EVERY)
            if struck := self.world.strike(self.chance):
                self.strikes[struck] += 1

    # ---------------------------------------------------------------- the rest

    async def _rest(self) -> Evidence:
        """Nobody speaks, nothing runs, all has left or is held; then each side's own word is taken."""
        await self._until(self._unheard, "not all was heard", 60.0)
        await self._until(self._quiet, "not all came to rest")
        transcript = await self._transcript()
        await self._until(self._caught_up, "not all was seen", 60.0)
        root, ledger = self.world.root, self.world.ledger
        evidence = gather(root, ledger, self.people.said, self.channels, self.platforms, self.watched, transcript)
        self.broken += await self._audit()
        self.people.close()
        await self._until(self._alone, "something runs on", 60.0)
        self.rested = await self._least()
        await asyncio.to_thread(self.world.down)
        await asyncio.to_thread(self.world.up)
        await self._until(self._watched, "not all watchers came back", 60.0)
        self.fresh = self.world.held()
        return evidence

    async def _least(self) -> Counter[str]:
        """What the gateway holds once connections that nobody uses have run out."""
        found = []
        for _ in range(7):  # s: the server hangs up after 5
            await asyncio.sleep(1)
            found.append(self.world.held())
        return min(found, key=Counter.total)

    async def _until(self, what: Callable[[], Awaitable[list[Any]]], broken: str, patience: float = PATIENCE) -> None:
        """Until it finds nothing that goes on, or for so long."""
        end = time.monotonic() + patience
        while found := await what():
            if time.monotonic() > end:
                self.broken.append(f"{broken} within {patience:.0f} s: {len(found)} such as {found[0]}")
                return
            await asyncio.sleep(0.5)

    async def _get(self, path: str) -> Json:
        client = await Client(self.world.port).open()
        with contextlib.closing(client):
            _, body, _ = await client.request("GET", path)
        return dict(json.loads(body))

    async def _unheard(self) -> list[str]:
        """What was said and no watcher has seen."""
        views = [one.view.entries.values() for one in self.watched]
        heard = {mark for view in views for one in view if one["role"] == "user" for mark in MARK.findall(one["text"])}
        return [one.message.mark for one in self.people.said if one.message.mark not in heard]

    async def _quiet(self) -> list[Any]:
        """Messages that nobody took, sessions that are busy, parts that are on their way."""
        if self.people.busy:
            return [self.people]
        sessions = (await self._get("/v1/sessions?limit=1000"))["sessions"]
        busy = [one["key"] for one in sessions if one["state"] != "idle" or one["waiting"]]
        if busy:
            return busy
        for state in ("queued", "sending", "unknown"):
            if parts := (await self._get(f"/v1/parts?state={state}"))["parts"]:
                return list(parts)
        return []

    async def _transcript(self) -> dict[str, dict[int, Json]]:
        """Every session's entries, page after page, as the API tells them."""
        found: dict[str, dict[int, Json]] = {}
        for session in self.sessions:
            entries: dict[int, Json] = {}
            rev = -1
            while rev < (page := await self._get(f"/v1/sessions/{session.key}/entries?after={max(rev, 0)}"))["rev"]:
                entries |= {one["seq"]: one for one in page["entries"]}
                rev = page["rev"]
            found[session.key] = entries
        return found

    async def _caught_up(self) -> list[str]:
        """Watchers that have not seen all."""
        sessions = (await self._get("/v1/sessions?limit=1000"))["sessions"]
        revs = {one["key"]: one["rev"] for one in sessions}
        return [one.session.key for one in self.watched if one.view.rev < revs.get(one.session.key, 0)]

    async def _audit(self) -> list[str]:
        """What `semel doctor --laws` says is broken, on the live ledger."""
        done = await asyncio.to_thread(self.world.doctor)
        return [] if done.returncode == 0 else [f"semel doctor: {done.stdout[-2000:]} {done.stderr[-500:]}"]

    async def _alone(self) -> list[str]:
        """What runs beside the gateway: agents that idle are ended, and take all of theirs with them."""
        return [one.line for one in self.world.processes() if one.what != "gateway"]

    async def _watched(self) -> list[str]:
        """Watchers that have not come back."""
        status = await self._get("/v1/status")
        return [] if status["watchers"] == len(self.watched) else [f"{status['watchers']} watchers"]


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
