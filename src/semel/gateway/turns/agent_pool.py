"""The pool of live agents: at most `max_processes` processes, each with a fencing token of its own.

A session has at most one agent. The agent is kept for `idle_after_s` seconds after a turn, because a start takes a
second. Then it is ended; the next turn starts a new process, which loads the agent's history. If the pool is full, the
least recently used idle process is ended. An agent that is not a process (`Agent.process`) does not count. Work outside
of sessions that starts a process (a check of an agent) borrows room, and gives it back when a session needs it.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, TypeVar

import structlog

from semel.acp_stream import Fold, profile_for
from semel.acp_stream.choices import check_option, read_choices
from semel.gateway.ports import Agent, AgentError, Conversation, Died, Inside, Launch, Update
from semel.gateway.process_identity import measure_groups
from semel.gateway.record import LedgerAccess
from semel.gateway.turns.agent_files import AgentFiles
from semel.gateway.turns.live_agent import LiveAgent, read_offers
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.rows import SessionRow
from semel.ledger.transcript import entries
from semel.ledger.turns import spawns as rows
from semel.ledger.turns.seats import SeatRule, ServedElsewhere, free_seat
from semel.ledger.turns.session_agent import ConfiguredAgents
from semel.text.json_types import Json

T = TypeVar("T")

log = structlog.get_logger("semel.spawns")

AFTERMATH_DELAY_S = 0.25  # seconds to collect updates between turns before they are shown
COMMANDS = "available_commands_update"  # the kind of update in which an agent lists its commands
TOOLS_START_TIMEOUT_S = 20.0  # seconds after its session is open that an agent may take to start Semel's MCP server


def token_digest(token: str) -> bytes:
    """Return the digest of a fencing token, in which form the ledger stores it."""
    return hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=32).digest()


@dataclass(eq=False, repr=False)
class AgentPool:
    """The pool of live agents. Call `take` before a turn, and `give_back` or `drop` after it."""

    record: LedgerAccess
    agents: dict[str, Agent]
    _: KW_ONLY
    configured: ConfiguredAgents
    gateway: str  # the name of this run of the gateway
    socket: Path
    tools_url: str | None  # Semel's MCP server over HTTP; None: loopback is not served
    max_processes: int
    idle_after_s: Callable[[str], float]  # seconds after which an idle process of this agent ends
    make_files: Callable[[], AgentFiles]  # makes the store for the files of one process
    read_mcp_servers: Callable[[int], Sequence[Json]]  # reads the servers that clients gave to this session's agent
    make_inside: Callable[[int], Inside]  # makes the services that an in-process agent of this session uses
    seat_rule: SeatRule | None = None  # in a cluster
    may_move: Callable[[str], bool] = lambda agent: False  # whether another gateway may run this agent's next turn

    def __post_init__(self) -> None:
        self.live: dict[int, LiveAgent] = {}
        self._opening = 0
        self._ending: set[int] = set()  # spawns being ended: their processes still use memory
        self._waiting = 0  # sessions that wait for room
        self._guests: set[asyncio.Task[Any]] = set()  # the work that `lend_room` runs
        self._room = asyncio.Condition()
        self._closing: set[asyncio.Task[None]] = set()
        self._with_tools: set[int] = set()  # spawns that have reached the tools
        self._without_tools: set[str] = set()  # agents that were logged, because one of their processes has no tools

    def __repr__(self) -> str:
        busy = sum(1 for s in self.live.values() if s.busy)
        idle = len(self.live) - busy
        return f"<AgentPool {busy} busy, {idle} idle, {self._opening} opening, at most {self.max_processes}>"

    def add_agent(self, name: str, agent: Agent) -> None:
        """Add an agent, or replace it. A session whose agent lives keeps it until that one is ended."""
        self.agents[name] = agent

    def idle_spawn(self, session: int) -> int | None:
        """Return the spawn id of the session's idle agent; None if it has none. May be called from any thread."""
        live = self.live.get(session)
        return live.spawn if live is not None and not live.busy else None

    def count_processes(self) -> int:
        """Return the number of processes that live or start. May be called from any thread."""
        return sum(live.process for live in tuple(self.live.values())) + self._opening

    def holds(self, spawn: int) -> bool:
        """Return whether this spawn is live in this pool: neither dead nor about to be ended."""
        return any(live.spawn == spawn for live in self.live.values())

    def find_announcing_turn(self, spawn: int, tool: str) -> int | None:
        """Return the turn in which this spawn announced the tool call `tool`; None if it did not (Law 10)."""
        return next((live.view.turns.get(tool) for live in self.live.values() if live.spawn == spawn), None)

    async def take(self, session: int, key: str, agent: str, memory: str | None) -> LiveAgent:
        """Return the session's agent. If it has none, wait for room in the pool and start one. Raises AgentError.

        `session`, `key`: the session's id and key. `memory`: the agent's id of the conversation to continue; None
        starts a new agent with a new conversation.
        """
        live = self.live.get(session)
        if live is not None and not live.busy:
            live.busy = True
            live.cancel_timer()
            await self._wait_for_aftermath(live)
            if memory is not None:
                return live
            await self.drop(live, "a new chapter began")  # it remembers the previous chapter
        if agent in self.agents and not self.agents[agent].process:
            return await self._open(session, key, agent, memory)
        async with self._room:
            self._waiting += 1
            try:
                await self._room.wait_for(self._make_room)
            finally:
                self._waiting -= 1
            self._opening += 1
        try:
            return await self._open(session, key, agent, memory)
        finally:
            self._opening -= 1
            await self._notify()

    async def lend_room(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Wait for room in the pool, run `work`, which starts a process of its own, and return its result.

        If a session needs the room, `work` is cancelled, and the result is None.
        """
        async with self._room:
            await self._room.wait_for(self._has_room)
            guest = asyncio.create_task(work(), name="a process beside the sessions")
            self._guests.add(guest)
        try:
            await asyncio.wait({guest})
        finally:
            _cancel_once(guest)
            await asyncio.wait({guest})
            self._guests.discard(guest)
            await self._notify()
        return None if guest.cancelled() else guest.result()

    def _has_room(self) -> bool:
        live = sum(s.process for s in self.live.values())
        return live + len(self._guests) + self._opening + len(self._ending) < self.max_processes

    def _make_room(self) -> bool:
        """Return whether there is room for a process. If there is none, end an idle process or the borrowed work.

        At most one process is ended for each waiting session.
        """
        if self._has_room():
            return True
        if self._guests:
            for guest in tuple(self._guests)[: self._waiting]:
                _cancel_once(guest)
            return False
        idle = [s for s in self.live.values() if s.process and not s.busy]
        if idle and len(self._ending) < self._waiting:
            self._end_if_idle(min(idle, key=lambda s: s.last_used), "made room for another session")
        return False

    async def _open(self, session: int, key: str, agent: str, memory: str | None) -> LiveAgent:
        if (problem := self.configured.explain_missing(key, agent)) is not None:
            raise AgentError(problem)
        row = await self.record.read(lambda tx: tx.get(SessionRow, "session_by_id", id=session))
        token = secrets.token_urlsafe(32)
        try:
            spawn = await self.record.write(
                rows.record_start, session, agent, self.gateway, token_digest(token), self.seat_rule
            )
        except ServedElsewhere as error:
            raise AgentError(str(error)) from None

        started: list[int] = []

        async def on_start(pid: int, pgid: int, born: str) -> None:
            started[:] = pid, pgid
            await self.record.write(rows.record_identity, spawn, pid, pgid, born)

        launch = Launch(
            session=key, spawn=spawn, token=token, socket=self.socket, memory=memory, on_start=on_start,
            tools_url=self.tools_url, inside=self.make_inside(session),
            mcp_servers=await asyncio.to_thread(self.read_mcp_servers, session),
            modes=entries.load(row.about).get("modes"), folder=None if row.folder is None else Path(row.folder),
        )  # fmt: skip
        try:
            conversation = await self.agents[agent].open(launch)
        except BaseException as error:
            self._with_tools.discard(spawn)
            await self.record.write(rows.record_end, spawn, f"did not start: {error}")
            raise
        try:
            await self._restore_choices(session, key, conversation)
        except BaseException as error:
            await conversation.close(0.0)
            await self.record.write(rows.record_end, spawn, f"did not start: {error}")
            raise
        fold = Fold(profile_for(conversation.profile or conversation.agent_name))
        process = self.agents[agent].process
        live = LiveAgent(
            spawn, session, key, agent, conversation, self.idle_after_s(agent), self.make_files(), process, fold=fold
        )
        live.pid, live.pgid = started or (None, None)
        live.has_tools = True if spawn in self._with_tools else None
        self.live[session] = live
        self._watch_tools(live)
        live.pump = asyncio.create_task(self._pump(live), name=f"signals of {key}")
        log.info("agent started", session=key, agent=agent, spawn=spawn, restored=conversation.restored)
        return live

    def note_tools_reached(self, spawn: int) -> None:
        """Record that this spawn has reached Semel's tools; its session may not be open yet."""
        self._with_tools.add(spawn)
        for live in self.live.values():
            if live.spawn == spawn and live.has_tools is not True:
                self._set_tools(live, True)

    def _watch_tools(self, live: LiveAgent) -> None:
        """Record that the agent has no tools if it refuses them, or if it does not reach them in time."""
        delay_s = 0.0 if live.conversation.tools_problem else TOOLS_START_TIMEOUT_S
        live.tools_timer = asyncio.get_running_loop().call_later(delay_s, self._set_tools, live, False)

    def _set_tools(self, live: LiveAgent, has_tools: bool) -> None:
        """Set whether the agent has Semel's tools. Correct what the session's watchers were shown before."""
        if live.has_tools is True or self.live.get(live.session) is not live:
            return
        was_known, live.has_tools = live.has_tools is not None, has_tools
        if not has_tools and live.agent not in self._without_tools:
            self._without_tools.add(live.agent)
            log.warning("agent has no tools", agent=live.agent, why=live.tools_problem)
        if was_known or not has_tools:
            self._begin_recording_tools(live, has_tools)

    def _begin_recording_tools(self, live: LiveAgent, has_tools: bool) -> None:
        """Start a task that records, for the session's watchers, whether its agent has Semel's tools."""

        async def record_tools() -> None:
            try:
                await self.record.write(entries.set_about, live.session, {"tools": has_tools})
            except LedgerError as error:
                log.warning("it could not be recorded which tools an agent has", session=live.key, why=str(error))

        task = asyncio.get_running_loop().create_task(record_tools(), name=f"tools of {live.key}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _restore_choices(self, session: int, key: str, conversation: Conversation) -> None:
        """Set a new process to the mode and model that the session had last, or that a person has chosen since.

        An agent that does not say in which mode it is gets the one that is shown to people.
        """
        about = await self.record.read(entries.read_about, session)
        for kind, offers, choose in (
            ("mode", conversation.modes, conversation.set_mode),
            ("model", conversation.models, conversation.set_model),
        ):
            current, offered = read_choices({f"{kind}s": offers}, kind)
            wanted = about.get(kind) if current is not None else read_choices(about, kind)[0]
            if wanted is None or wanted == current or not offered:
                continue
            try:
                await choose(str(wanted))
            except AgentError as error:
                log.warning("the session's last choice is not offered any more", session=key, why=str(error))
                await self.record.write(entries.set_about, session, {kind: current})
        await self._restore_options(session, key, conversation, about.get("chosen") or {})

    async def _restore_options(self, session: int, key: str, conversation: Conversation, chosen: Json) -> None:
        """Set a new process's options to the values that people chose. Forget those that it does not offer any more."""
        kept: Json = {}
        for id, value in chosen.items():
            try:
                if check_option(conversation.options or (), id, value).get("currentValue") != value:
                    await conversation.set_option(id, value)
                kept[id] = value
            except (ValueError, AgentError) as error:
                log.warning("the value of an option is not offered any more", session=key, why=str(error))
        if kept != chosen:
            await self.record.write(entries.set_about, session, {"chosen": kept})

    async def _pump(self, live: LiveAgent) -> None:
        """Queue the agent's signals, in order, after storing the files in them.

        If the agent dies between turns, end it.
        """
        while True:
            signal = await live.conversation.next()
            if isinstance(signal, Update) and not signal.replay:
                signal = Update(await live.files.take(signal.data))
            live.signals.put_nowait(signal)
            if isinstance(signal, Update):
                if signal.data.get("sessionUpdate") == COMMANDS:
                    live.has_announced_commands.set()
                self._schedule_aftermath(live)
            if isinstance(signal, Died):
                self._end_if_idle(live, signal.why)
                return

    def _schedule_aftermath(self, live: LiveAgent) -> None:
        """Start a task that records and shows the updates which arrive between turns (the aftermath of a turn)."""
        if not live.busy and live.aftermath is None and not live.signals.empty():
            live.aftermath = asyncio.create_task(self._handle_aftermath(live), name=f"aftermath of {live.key}")

    async def _handle_aftermath(self, live: LiveAgent) -> None:
        """Wait a moment, then record and show the updates that arrived between turns."""
        await asyncio.sleep(AFTERMATH_DELAY_S)
        await self._record_aftermath(live)

    async def _record_aftermath(self, live: LiveAgent) -> None:
        live.is_settling = True
        try:
            if live.record_afterwards is None:
                await self.record_offers(live)
                return
            waiting = live.take_waiting()
            updates = [signal for signal in waiting if isinstance(signal, Update)]
            live.put_back(signal for signal in waiting if not isinstance(signal, Update))
            if updates:
                await live.record_afterwards(updates)
        except LedgerError as error:
            log.warning("what an agent told after its turn could not be recorded", session=live.key, why=str(error))
        finally:
            live.is_settling, live.aftermath = False, None
            await self._release_files(live)

    async def record_offers(self, live: LiveAgent) -> None:
        """Record what an agent that was not prompted yet has said about its session: commands, mode and options.

        Its updates stay in the queue, for its first turn.
        """
        about: dict[str, Any] = {}
        for update in live.list_waiting_updates():
            match update.get("sessionUpdate"):
                case kind if kind == COMMANDS and isinstance(update.get("availableCommands"), list):
                    about["commands"] = update["availableCommands"]
                case "current_mode_update" if isinstance(update.get("currentModeId"), str):
                    about["mode"] = update["currentModeId"]
        await self.record.write(entries.set_about, live.session, {**read_offers(live.conversation), **about})

    async def _release_files(self, live: LiveAgent, ended: bool = False) -> None:
        """Release the agent's stored files that no entry uses, unless a signal in the queue may still need one.

        `ended`: the agent has ended, so no signal needs them.
        """
        if ended or (live.signals.empty() and not live.files.is_storing):
            await live.files.release()

    async def _wait_for_aftermath(self, live: LiveAgent) -> None:
        """Wait for updates of the last turn that are just being recorded.

        Leave updates that are only queued to the next turn.
        """
        task = live.aftermath
        if task is None:
            return
        if live.is_settling:
            await asyncio.wait({task})
        else:
            task.cancel()
            live.aftermath = None

    async def give_back(self, live: LiveAgent) -> None:
        """Return the agent to the pool after a turn. End it if its stream is over, or if nobody is logged in to it."""
        if live.pump is not None and live.pump.done():
            await self.drop(live, "it ended by itself")
            return
        if live.is_logged_out:
            await self.drop(live, "nobody is logged in to it")
            return
        loop = asyncio.get_running_loop()
        live.busy = False
        live.last_used = loop.time()
        live.timer = loop.call_later(live.idle_after_s, self._end_if_idle, live, "idle")
        self._schedule_aftermath(live)
        await self._release_files(live)
        await self._notify()

    async def drop(self, live: LiveAgent, reason: str, grace: float = 2.0) -> None:
        """End the agent, for example because it died, ignored a cancel, or the gateway stops.

        If the caller is cancelled, termination continues, and `stop` waits for it. `grace`: see `Conversation.close`.
        """
        await asyncio.shield(self._begin_end(live, reason, grace))

    def _begin_end(self, live: LiveAgent, reason: str, grace: float = 2.0) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._drop(live, reason, grace), name=f"end {live.key}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        self._remove(live)
        return task

    async def _drop(self, live: LiveAgent, reason: str, grace: float) -> None:
        if live.pump is not None:
            live.pump.cancel()
        if not live.busy:
            await self._wait_for_aftermath(live)
            await self._record_aftermath(live)
        try:
            await live.conversation.close(grace)
        finally:
            await self._release_files(live, ended=True)
            self._ending.discard(live.spawn)
            self._with_tools.discard(live.spawn)
            await self._notify()
            await self.record.write(rows.record_end, live.spawn, reason)
            if self.seat_rule is not None and self.may_move(live.agent):
                await self.record.write(free_seat, live.session, self.seat_rule.name)
            log.info("agent ended", session=live.key, spawn=live.spawn, why=reason)

    def _remove(self, live: LiveAgent) -> None:
        live.cancel_timer()
        if live.tools_timer is not None:
            live.tools_timer.cancel()
        if self.live.get(live.session) is live:
            del self.live[live.session]
            if live.process:
                self._ending.add(live.spawn)

    async def end(self, session: int, reason: str) -> None:
        """End the session's agent if it is idle."""
        live = self.live.get(session)
        if live is not None and not live.busy:
            await self.drop(live, reason)

    def _end_if_idle(self, live: LiveAgent, reason: str) -> None:
        if live.busy or self.live.get(live.session) is not live:
            return
        self._begin_end(live, reason)

    async def _notify(self) -> None:
        async with self._room:
            self._room.notify_all()

    async def stop(self, grace: float) -> None:
        """End all processes at the same time, and wait for them."""
        await asyncio.gather(*(self.drop(s, "the gateway stopped", grace) for s in list(self.live.values())))
        if self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)

    def status(self) -> list[dict[str, Any]]:
        """Return the live agents as JSON, for people.

        `tools`: whether the agent has Semel's tools; None if not known yet. `problem`: why it has none, and what
        follows from that. `usage`: how full its context is and what it cost, as it told last; None if it told nothing.
        """
        return [
            {
                "session": s.key, "agent": s.agent, "spawn": s.spawn, "busy": s.busy, "name": s.conversation.agent_name,
                "tools": s.has_tools, "problem": s.tools_problem if s.has_tools is False else "",
                "pid": s.pid, "usage": s.fold.get_usage(),
            }
            for s in self.live.values()
        ]  # fmt: skip

    async def measure_memory(self) -> dict[int, int]:
        """Return the resident memory of the live agents' process groups in bytes, by spawn, where it can be read."""
        groups = {s.spawn: s.pgid for s in self.live.values() if s.pgid is not None}
        memory = await asyncio.to_thread(measure_groups, groups.values())
        return {spawn: memory[pgid] for spawn, pgid in groups.items() if pgid in memory}


def _cancel_once(work: asyncio.Task[Any]) -> None:
    """Cancel the work that `lend_room` runs, but only once: a second cancellation would interrupt its clean-up."""
    if not work.cancelling():
        work.cancel()
