"""The pool of live agents: at most N processes, each with its own fencing token.

A session has at most one agent. It is kept for `idle_after` seconds between turns, because a start costs a second and
60-500 MB; after that, the next turn starts a new process, which loads its history. If the pool is full, the least
recently used idle process is ended. An agent that is not a process (`Agent.process`) does not count.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from semel.acp_stream import Fold, profile_for
from semel.gateway.ports import Agent, AgentError, Conversation, Died, Inside, Launch, Update
from semel.gateway.transactions import Record
from semel.gateway.turns.agent_files import AgentFiles
from semel.gateway.turns.stream_view import StreamView
from semel.ledger.storage.errors import LedgerError
from semel.ledger.turns import show
from semel.ledger.turns import spawns as rows

log = structlog.get_logger("semel.spawns")

PAUSE = 0.25  # seconds to collect updates between turns before they are shown


def token_digest(token: str) -> bytes:
    """The digest under which the ledger stores a fencing token."""
    return hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=32).digest()


@dataclass
class LiveAgent:
    """A running agent process and what it holds."""

    spawn: int
    session: int
    key: str
    agent: str
    conversation: Conversation
    idle_after: float
    process: bool = True  # counts towards the limit of the pool
    busy: bool = True
    used: float = 0.0
    told_names: tuple[str, ...] | None = None  # the destinations its model was told of
    primed: bool = False  # the agent was told what its memory lacks
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)
    signals: asyncio.Queue[Any] = field(default_factory=asyncio.Queue, repr=False)  # Signal, and marks of the run
    history_ended: bool = False  # its replay shows that its last turn had ended
    announces: bool | None = None  # whether its stream announces tool calls; None: unknown yet
    afterwards: Callable[[list[Update]], Awaitable[None]] | None = field(default=None, repr=False)  # of its last turn
    aftermath: asyncio.Task[None] | None = field(default=None, repr=False)
    settling: bool = False
    fold: Fold = field(default_factory=Fold, repr=False)
    viewing: StreamView = field(default_factory=StreamView, repr=False)
    slots: show.Slots = field(default_factory=show.Slots, repr=False)
    files: AgentFiles | None = field(default=None, repr=False)
    pump: asyncio.Task[None] | None = field(default=None, repr=False)


class AgentPool:
    """The pool. `take` before a turn, `give_back` or `drop` after it."""

    def __init__(
        self,
        record: Record,
        agents: Mapping[str, Agent],
        *,
        gateway: str,
        socket: Path,
        most: int,
        idle_after: Callable[[str], float],
        files: Callable[[], AgentFiles] | None = None,
    ) -> None:
        self.record = record
        self.agents = agents
        self.gateway = gateway
        self.socket = socket
        self.most = most
        self.idle_after = idle_after
        self.files = files  # makes the store for files of an agent
        self.inside: Callable[[int], Inside | None] = lambda session: None  # for in-process agents
        self.live: dict[int, LiveAgent] = {}
        self._opening = 0
        self._leaving: set[int] = set()  # spawns being ended: their processes still use memory
        self._waiting = 0  # sessions that wait for room
        self._free = asyncio.Condition()
        self._closing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        busy = sum(1 for s in self.live.values() if s.busy)
        return f"<Spawns {busy} busy, {len(self.live) - busy} idle, {self._opening} opening, at most {self.most}>"

    def idle_spawn(self, session: int) -> int | None:
        """The spawn id of the session's idle process; None if it has none."""
        one = self.live.get(session)
        return one.spawn if one is not None and not one.busy else None

    def holds(self, spawn: int) -> bool:
        """Whether this spawn is live in this pool: neither dead nor being ended."""
        return any(one.spawn == spawn for one in self.live.values())

    def find_announcing_turn(self, spawn: int, tool: str) -> int | None:
        """The turn in which this spawn announced the tool call; None if it did not (Law 10)."""
        return next((one.viewing.turns.get(tool) for one in self.live.values() if one.spawn == spawn), None)

    async def take(self, session: int, key: str, agent: str, memory: str | None) -> LiveAgent:
        """The session's process, started if need be. Waits for room. Raises AgentError."""
        one = self.live.get(session)
        if one is not None and not one.busy:
            self._occupy(one)
            await self._settled(one)
            if memory is not None:
                return one
            await self.drop(one, "a new chapter began")  # what it remembers is of the one before
        if agent in self.agents and not self.agents[agent].process:
            return await self._open(session, key, agent, memory)
        async with self._free:
            self._waiting += 1
            try:
                await self._free.wait_for(self._make_room)
            finally:
                self._waiting -= 1
            self._opening += 1
        try:
            return await self._open(session, key, agent, memory)
        finally:
            self._opening -= 1
            await self._notify()

    def _occupy(self, one: LiveAgent) -> None:
        one.busy = True
        if one.timer is not None:
            one.timer.cancel()
            one.timer = None

    def _make_room(self) -> bool:
        """Whether there is room for a process. If not, end one idle process per waiting session."""
        live = [s for s in self.live.values() if s.process]
        if len(live) + self._opening + len(self._leaving) < self.most:
            return True
        idle = [s for s in live if not s.busy]
        if idle and len(self._leaving) < self._waiting:
            self._end_soon(min(idle, key=lambda s: s.used), "made room for another session")
        return False

    async def _open(self, session: int, key: str, agent: str, memory: str | None) -> LiveAgent:
        if agent not in self.agents:
            raise AgentError(f"no agent is named {agent!r}; add [agents.{agent}] to the configuration")
        token = secrets.token_urlsafe(32)
        spawn = await self.record.write(rows.start, session, agent, self.gateway, token_digest(token))

        async def on_start(pid: int, pgid: int, born: str) -> None:
            await self.record.write(rows.started, spawn, pid, pgid, born)

        launch = Launch(
            session=key, spawn=spawn, token=token, socket=self.socket, memory=memory, on_start=on_start,
            inside=self.inside(session),
        )  # fmt: skip
        try:
            conversation = await self.agents[agent].open(launch)
        except BaseException as fault:
            await self.record.write(rows.ended, spawn, f"did not start: {fault}")
            raise
        fold = Fold(profile_for(conversation.profile or conversation.agent_name))
        process = self.agents[agent].process
        kept = self.files() if self.files is not None else None
        one = LiveAgent(
            spawn, session, key, agent, conversation, self.idle_after(agent), process, fold=fold, files=kept
        )
        self.live[session] = one
        one.pump = asyncio.create_task(self._pump(one), name=f"signals of {key}")
        log.info("agent started", session=key, agent=agent, spawn=spawn, restored=conversation.restored)
        return one

    async def _pump(self, one: LiveAgent) -> None:
        """Queue the signals in the order of the wire. Notices at once if the process dies between turns."""
        while True:
            signal = await one.conversation.next()
            if isinstance(signal, Update) and not signal.replay and one.files is not None:
                signal = Update(await one.files.take(signal.data))
            one.signals.put_nowait(signal)
            if isinstance(signal, Update):
                self._heed(one)
            if isinstance(signal, Died):
                self._end_soon(one, signal.why)
                return

    def _heed(self, one: LiveAgent) -> None:
        """Schedule the handling of updates that arrive between turns."""
        if not one.busy and one.aftermath is None and not one.signals.empty():
            one.aftermath = asyncio.create_task(self._aftermath(one), name=f"aftermath of {one.key}")

    async def _aftermath(self, one: LiveAgent) -> None:
        """Show updates that arrived between turns after a short pause, instead of when the next turn begins."""
        await asyncio.sleep(PAUSE)
        await self._settle(one)

    async def _settle(self, one: LiveAgent) -> None:
        one.settling = True
        try:
            waiting = [one.signals.get_nowait() for _ in range(one.signals.qsize())]
            updates = [signal for signal in waiting if isinstance(signal, Update)]
            for signal in waiting:
                if not isinstance(signal, Update):
                    one.signals.put_nowait(signal)
            if updates and one.afterwards is not None:
                await one.afterwards(updates)
        except LedgerError as fault:
            log.warning("what an agent told after its turn could not be recorded", session=one.key, why=str(fault))
        finally:
            one.settling, one.aftermath = False, None
            await self._release_files(one)

    async def _release_files(self, one: LiveAgent, ended: bool = False) -> None:
        """Release stored files of the agent that nothing recorded, unless waiting signals may still record them."""
        if one.files is not None and (ended or (one.signals.empty() and not one.files.is_storing)):
            await one.files.release()

    async def _settled(self, one: LiveAgent) -> None:
        """Wait until nothing of the last turn is being written. Waiting signals are left to the next turn."""
        task = one.aftermath
        if task is None:
            return
        if one.settling:
            await asyncio.wait({task})
        else:
            task.cancel()
            one.aftermath = None

    async def give_back(self, one: LiveAgent) -> None:
        """Return the process to the pool after a turn; end it if its stream is over."""
        if one.pump is not None and one.pump.done():
            await self.drop(one, "it ended by itself")
            return
        loop = asyncio.get_running_loop()
        one.busy = False
        one.used = loop.time()
        one.timer = loop.call_later(one.idle_after, self._end_soon, one, "idle")
        self._heed(one)
        await self._release_files(one)
        await self._notify()

    async def drop(self, one: LiveAgent, why: str, grace: float = 2.0) -> None:
        """End the process: it died, ignored a cancel, or the gateway stops.

        If the caller is cancelled, termination continues; `stop` waits for it.
        """
        await asyncio.shield(self._begin_end(one, why, grace))

    def _begin_end(self, one: LiveAgent, why: str, grace: float = 2.0) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._drop(one, why, grace), name=f"end {one.key}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        self._forget(one)
        return task

    async def _drop(self, one: LiveAgent, why: str, grace: float) -> None:
        if one.pump is not None:
            one.pump.cancel()
        if not one.busy:
            await self._settled(one)
            await self._settle(one)
        try:
            await one.conversation.close(grace)
        finally:
            await self._release_files(one, ended=True)
            self._leaving.discard(one.spawn)
            await self._notify()
            await self.record.write(rows.ended, one.spawn, why)
            log.info("agent ended", session=one.key, spawn=one.spawn, why=why)

    def _forget(self, one: LiveAgent) -> None:
        if one.timer is not None:
            one.timer.cancel()
            one.timer = None
        if self.live.get(one.session) is one:
            del self.live[one.session]
            if one.process:
                self._leaving.add(one.spawn)

    async def end(self, session: int, why: str) -> None:
        """End the session's process, if it is idle."""
        one = self.live.get(session)
        if one is not None and not one.busy:
            await self.drop(one, why)

    def _end_soon(self, one: LiveAgent, why: str) -> None:
        if one.busy or self.live.get(one.session) is not one:
            return
        self._begin_end(one, why)

    async def _notify(self) -> None:
        async with self._free:
            self._free.notify_all()

    async def stop(self, grace: float) -> None:
        """End all processes concurrently and wait for them."""
        await asyncio.gather(*(self.drop(s, "the gateway stopped", grace) for s in list(self.live.values())))
        if self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)

    def status(self) -> list[dict[str, Any]]:
        """For people: which processes are live."""
        return [
            {"session": s.key, "agent": s.agent, "spawn": s.spawn, "busy": s.busy, "name": s.conversation.agent_name}
            for s in self.live.values()
        ]
