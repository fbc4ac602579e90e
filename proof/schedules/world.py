"""One run: a gateway that lives, dies and lives again, between platforms, people, watchers and agents of one seed."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import apsw

import semel.gateway.api.composition
from proof.schedules.agents import SeededAgent
from proof.schedules.chance import EPOCH
from proof.schedules.doors import NoSearch
from proof.schedules.editors import Editors
from proof.schedules.loop import LIFE, Life, SeededLoop, settle
from proof.schedules.people import People
from proof.schedules.plan import CHANNELS, SPAN, Plan
from proof.schedules.platforms import Platform, SeededChannel
from proof.schedules.strands import Stage
from proof.schedules.told import Disk
from proof.schedules.wires import Gone, Outside
from proof.schedules.witness import Witness
from semel.gateway import Gateway
from semel.gateway.ports import Safety
from semel.gateway.settings import (
    AgentSettings,
    ChannelSettings,
    DestinationSettings,
    GatewaySettings,
    HeartbeatSettings,
    PersonSettings,
    ScheduleSettings,
    SessionSettings,
)
from semel.ledger.sqlite.store import Store

T = TypeVar("T")
Json = dict[str, Any]

SAFETY = {"mail": Safety.RECONCILABLE, "hook": Safety.IDEMPOTENT, "chat": Safety.AT_MOST_ONCE}
ENOUGH = 5  # broken promises
PATIENCE = 4 * 3600.0  # virtual seconds until a world has to be at rest
LOOKS = (0.5, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # seconds between two looks; then the last one again

semel.gateway.api.composition.Search = NoSearch  # type: ignore[misc,assignment]


class LoopClock:
    """`semel.gateway.clock.Clock` of the loop's own time."""

    def __init__(self, loop: SeededLoop) -> None:
        self.loop = loop

    def now(self) -> int:
        return EPOCH + round(self.loop.time() * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def sleep_until(self, at: int) -> None:
        while (left := (at - self.now()) / 1000) > 0:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(left)


class World:
    """Everything of one run. `faults` are broken promises that were seen while it ran."""

    def __init__(self, plan: Plan, loop: SeededLoop, stage: Stage, ledger: Path, look: apsw.Connection) -> None:
        self.plan, self.loop, self.stage, self.ledger, self.look = plan, loop, stage, ledger, look
        self.folder = ledger.parent
        self.outside = Outside(loop, plan.seed)
        self.clock = LoopClock(loop)
        self.faults: list[str] = []
        self.lives = itertools.count(1)
        self.life: Life | None = None
        self.gateway: Gateway | None = None
        self.up = False  # the gateway that lives can be asked
        self.over: list[Any] = []  # gateways of the past: nothing of them may run when they are forgotten
        self._doomed: Json | None = None  # a crash that is due at the end of this step
        self._requests: dict[Life, list[asyncio.Future[Any]]] = {}
        self._moments = [(n, one) for n, one in enumerate(plan.actions) if "when" in one and "at" not in one["when"]]
        self.happened: dict[str, int] = {
            "step": 0,
            "commit": 0,
            "ack": 0,
            "prompt": 0,
            "answer": 0,
            "told": 0,
            "retold": 0,
            "stop": 0,
        }
        self.rooms = [_room(n, name) for n, name in enumerate(plan.shape["rooms"])]
        self.platforms = {name: self._platform(name) for name in CHANNELS if self._used(name)}
        self.disk = Disk()
        self.disk.scripts = {
            (self.rooms[one["room"]], one["n"]): list(one["steps"]) for one in plan.actions if one["do"] == "script"
        }
        self.agent = SeededAgent(self.outside, self.disk, plan.shape["agent"])
        self.agent.door = self._door
        self.agent.answering = lambda: self.happens("answer")
        self.agent.telling = lambda: self.happens("told")
        self.agent.retelling = lambda: self.happens("retold")
        self.witness = Witness(self)
        self.people = People(self)
        self.editors = Editors(self)
        self.settings = self._settings()
        stage.committing = self._committing
        loop.at_step = self._stepped

    def __repr__(self) -> str:
        return f"<World of seed {self.plan.seed}, {self.life!r}, {self.loop!r}>"

    def fault(self, what: str) -> None:
        """A promise is broken."""
        self.faults.append(what)

    @property
    def enough(self) -> bool:
        """So much is broken already that the rest tells nothing more."""
        return len(self.faults) >= ENOUGH

    def _used(self, name: str) -> bool:
        return name in self.plan.shape["rooms"] or (name == "chat" and self.plan.shape["side"])

    def _platform(self, name: str) -> Platform:
        shape, mine = self.plan.shape, [one for one in self.plan.actions if one.get("channel") == name]
        return Platform(
            name, SAFETY[name], self.outside, forgets=shape["forgets"][name], tells_echo=shape["echoes"][name],
            streams=shape["streams"][name],
            faults={one["n"]: one for one in mine if one["do"] == "fault"},
            troubles={one["n"]: one for one in mine if one["do"] == "trouble"},
            at_take=self._taken, **shape.get("platforms", {}).get(name, {}),
        )  # fmt: skip

    def _settings(self) -> GatewaySettings:
        shape = self.plan.shape
        side = (
            {"side": DestinationSettings(name="side", channel="chat", address="side", allow=("*",))}
            if shape["side"]
            else {}
        )
        fires = {
            f"s{n}": ScheduleSettings(at=_iso(one["at"]), text=f"do {one['mark']}", session=self.rooms[one["room"]])
            for n, one in enumerate(self.plan.actions)
            if one["do"] == "fires"
        }
        agent = AgentSettings(name="main", command=("agent",), cwd=self.folder, silence_s=120.0)
        return GatewaySettings(
            data_dir=self.folder, ledger=self.ledger, agents={"main": agent},
            channels={
                n: ChannelSettings(name=n, kind="seeded", narration=shape["narration"], stream=platform.streams)
                for n, platform in self.platforms.items()
            },
            destinations=side, schedules=fires,
            people={"Ann": PersonSettings(role="owner", accounts=tuple(f"{name}:ann" for name in self.platforms))},
            heartbeat=HeartbeatSettings(sessions=("*r0",) if shape["heartbeat"] else (), every_s=20.0),
            sessions={"*": SessionSettings(busy=shape["busy"])},
            max_live_agents=shape["most"], idle_after_s=shape["idle"], permission_deadline_s=shape["deadline"],
        )  # fmt: skip

    # ------------------------------------------------------------ lives

    def start(self) -> None:
        """The process is started."""
        if self.life is not None:
            return
        self.agent.kill_all()  # what outlived its gateway is found and ended
        life = self.life = Life(next(self.lives))
        context = contextvars.copy_context()
        context.run(LIFE.set, life)
        context.run(self._compose)
        assert self.gateway is not None
        started = self.loop.create_task(self.gateway.start(), name="start", context=context.copy())
        started.add_done_callback(self._started, context=self.outside._context)

    def _compose(self) -> None:
        facts: Json = {"chat": {"max_len": self.plan.shape["max_len"]}}
        channels = {n: SeededChannel(p, **facts.get(n, {})) for n, p in self.platforms.items()}
        store = Store.open(self.ledger, exclusive=False, clock=self.clock.now)
        self.gateway = Gateway(
            self.settings, store, {"main": self.agent}, channels, reap=lambda left: False, clock=self.clock
        )
        self.over.append(self.gateway)

    def _started(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or self.life is None:
            return
        if (fault := task.exception()) is not None:
            self.fault(f"the gateway does not start: {fault!r}")
        self.up = True

    def crash(self, doom: Json) -> None:
        """SIGKILL: no clean-up, what was not committed is gone. It is started again after a while.

        `orphan`: what an agent had started outlives it, and speaks when the next gateway is there. `finishes`: the
        agents themselves outlive it, and go on with their turns until then.
        """
        alive = [one for one in self.agent.processes if one.alive]
        if self._end(doom.get("finishes", False)) is None:
            return
        self.outside.later(doom["down"], self.start)
        if doom.get("orphan"):
            for one in alive:
                self.outside.run(one.mcp.speak_as_orphan(doom["down"] + 1.0), "orphan")

    def _end(self, finishes: bool = False) -> Life | None:
        life, self.life, self.gateway, self.up = self.life, None, None, False
        if life is None:
            return None
        life.alive = False
        self.stage.kill(life)
        self.witness.at_death()
        if not finishes:
            self.agent.kill_all()
        for platform in self.platforms.values():
            platform.news.clear()
            platform.waits.clear()  # it may have died with the answer
            platform.asking.clear()
        for request in self._requests.pop(life, []):
            settle(request, fault=Gone("the gateway died"))
        return life

    async def restart(self, grace: float, down: float) -> None:
        """A clean stop, and a start."""
        gateway = self.gateway
        if not self.up or gateway is None:
            return
        self.up = False
        try:
            await self.ask(lambda: gateway.stop(grace), always=True)
            assert self.life is not None
            await self.ask(lambda: _closed(gateway), always=True)
        except Gone:
            return  # it was killed meanwhile, and is started by that
        self._end()
        self.outside.later(down, self.start)

    def ask(self, make: Callable[[], Awaitable[T]], always: bool = False) -> asyncio.Future[T]:
        """Have the gateway's process do something, as a request that came in. Raises Gone if it dies first."""
        answer: asyncio.Future[T] = self.loop.create_future()
        life = self.life
        if life is None or not (self.up or always):
            settle(answer, fault=Gone("nobody is there"))
            return answer
        self._requests.setdefault(life, []).append(answer)
        context = contextvars.copy_context()
        context.run(LIFE.set, life)

        async def serve() -> None:
            try:
                result = await make()
            except Exception as fault:
                self.outside.soon(settle, answer, None, fault)
            else:
                self.outside.soon(settle, answer, result)

        self.loop.create_task(serve(), name="request", context=context)
        return answer

    async def _door(self, method: str, params: Json) -> Json:
        gateway = self.gateway
        if gateway is None:
            raise Gone("nobody is there")
        try:
            return await self.ask(lambda: gateway.tools(method, params))
        except Gone:
            raise
        except Exception as fault:
            return {"error": str(fault)}

    # ------------------------------------------------------------ where it dies

    def happens(self, what: str) -> None:
        self.happened[what] += 1
        self.comes(what, self.happened[what])

    def _committing(self, when: str) -> None:
        if when == "before":
            self.happened["commit"] += 1
        self.comes("commit", self.happened["commit"], side=when)

    def _taken(self, platform: Platform, n: int, when: str) -> None:
        self.comes("take", n, channel=platform.name, side=when)

    def comes(self, what: str, n: int, **more: str) -> None:
        """The n-th time of something: perhaps somebody acts at that moment, or the process dies of it."""
        for number, one in self._moments:
            when = one["when"]
            if when.get(what) == n and all(when.get(name) == value for name, value in more.items()):
                self._moments.remove((number, one))
                if one["do"] == "crash":
                    self._doomed = one
                else:
                    self.outside.soon(self.people.act, number, one, when.get("then", 0.0))
                return

    def _at_last(self, number: int, one: Json) -> None:
        """Its moment did not come."""
        if (number, one) in self._moments:
            self._moments.remove((number, one))
            self.people.act(number, one, 0.0)

    def _stepped(self, step: int) -> None:
        self.comes("step", step)
        if self._doomed is not None:
            doom, self._doomed = self._doomed, None
            self.crash(doom)

    # ------------------------------------------------------------ the run

    async def run(self) -> None:
        """From the first start to rest."""
        self.start()
        for n, one in enumerate(self.plan.actions):
            if one["do"] == "crash" and "at" in one["when"]:
                self.outside.later(one["when"]["at"], self.crash, one)
            elif "at" in one:
                self.people.act(n, one, one["at"])
        for number, one in self._moments:
            if "until" in one["when"]:
                self.outside.later(one["when"]["until"], self._at_last, number, one)
        self.people.watch()
        self.editors.start()
        await asyncio.sleep(SPAN)
        for wait in itertools.chain(LOOKS, itertools.repeat(LOOKS[-1])):
            await asyncio.sleep(wait)
            why = self.restless()
            if why is None:
                break
            if self.loop.time() > PATIENCE:
                self.fault(f"it does not come to rest in {PATIENCE / 3600:g} hours: {why}")
                break
        self._end()

    def restless(self) -> str | None:
        """What is still to be done; None: all is at rest."""
        if not self.up:
            return "no gateway is there"
        if busy := self.people.busy():
            return busy
        for platform in self.platforms.values():
            if platform.late:
                return f"{len(platform.late)} messages are on their way to {platform!r}"
            if platform.left():
                return f"{platform!r} has {platform.left()} updates that nobody took"
        for sql, what in _RESTLESS.items():
            if row := next(iter(self.look.execute(sql)), None):
                return f"{what} {row}"
        return self.editors.restless() or self.people.behind()


_RESTLESS = {
    "SELECT key, turn FROM session WHERE turn IS NOT NULL": "a turn runs:",
    "SELECT key, wake_at FROM session WHERE wake_at IS NOT NULL": "a wake is due:",
    "SELECT id, state, dest FROM part WHERE state IN ('queued', 'sending', 'unknown')": "a part is under way:",
    "SELECT event, name FROM command WHERE state = 'open'": "a command is not done:",
    "SELECT name, due FROM schedule WHERE enabled = 1 AND due IS NOT NULL AND name NOT LIKE 'agent-%'": "due:",
}


def _room(n: int, channel: str) -> str:
    return f"talk:r{n}" if channel == "web" else f"main:{channel}:r{n}"


def _iso(at: float) -> str:
    return datetime.fromtimestamp(EPOCH / 1000 + at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


async def _closed(gateway: Gateway) -> None:
    gateway.store.close()
