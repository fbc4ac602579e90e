"""`Gateway`: builds the components, starts and stops them, and is the API that the CLI and the HTTP server call.

Only the gateway sends to platforms, writes the transcript and feeds live views; agents and channels go through it.

The order of `start` matters: a ledger restored from a backup is settled first (Law 14), agents of a dead gateway are
killed next (Law 10), and only then channels connect and turns run. `stop` goes the other way: input ends first, then
running turns, agents and the outbox.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from semel.gateway import files
from semel.gateway.api.archive import Archive
from semel.gateway.api.erasures import Erasures
from semel.gateway.api.memory_diff import MemoryComparison
from semel.gateway.api.reads import Views
from semel.gateway.api.search import Search
from semel.gateway.api.sessions import Sessions
from semel.gateway.clock import Clock, SystemClock
from semel.gateway.errors import BadRequest, Busy
from semel.gateway.hub import Hub
from semel.gateway.inbound.admission import People
from semel.gateway.inbound.channel_manager import ChannelManager
from semel.gateway.inbound.commands import Commands
from semel.gateway.inbound.inbox import Inbox
from semel.gateway.outbound.destinations import Places
from semel.gateway.outbound.outbox import Outbox
from semel.gateway.outbound.typing import Typing
from semel.gateway.ports import Agent, Background, Channel, Heard
from semel.gateway.settings import GatewaySettings
from semel.gateway.tools.job_tools import tools as job_tools
from semel.gateway.tools.jobs import Jobs
from semel.gateway.tools.rpc import RpcServer, socket_path
from semel.gateway.tools.schedule_tools import tools as schedule_tools
from semel.gateway.tools.schedules import Schedules
from semel.gateway.tools.tool_calls import ToolCalls
from semel.gateway.transactions import Record
from semel.gateway.turns.agent_files import AgentFiles
from semel.gateway.turns.agent_pool import AgentPool
from semel.gateway.turns.heartbeats import Heartbeats
from semel.gateway.turns.in_process import Inside
from semel.gateway.turns.run_context import RunDependencies
from semel.gateway.turns.scheduler import Turns
from semel.law.busy import MODES
from semel.law.busy import Busy as Mode
from semel.law.echo import QUIET_WORD
from semel.ledger.backup import settle_restored
from semel.ledger.inbound.commands import KIND as COMMAND
from semel.ledger.inbound.hear import PERSON_KINDS
from semel.ledger.storage.store import Store
from semel.ledger.transcript import entries
from semel.ledger.turns import spawns as spawn_rows
from semel.ledger.turns import startup
from semel.ledger.turns.spawns import OrphanedProcess
from semel.ledger.turns.turns import Stop

log = structlog.get_logger("semel.gateway")

Json = dict[str, Any]


PATIENCE_S = 10.0  # how long `stop` waits for cancelled background tasks, such as a channel's `run`


class Gateway(Views, Sessions, Archive):
    """Create it with `Gateway(settings, store, agents, channels)`; `start` it, call its API, `stop` it.

    `reap(left)` kills an agent process that a dead gateway left running, if it is still the same one, and returns
    whether it did (Law 10). `found` returns the problems to show in `status`.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        store: Store,
        agents: Mapping[str, Agent],
        channels: Mapping[str, Channel] | None = None,
        *,
        reap: Callable[[OrphanedProcess], bool] | None = None,
        found: Callable[[], list[Json]] | None = None,
        clock: Clock | None = None,
        background: Background | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.hub = Hub()
        self.channels = dict(channels or {})
        self.name = f"{os.getpid()}-{secrets.token_hex(8)}"  # names this run of the gateway; its lease is held under it
        self.places = Places(settings.destinations, settings.channels, self.channels)
        self.record = Record(store, self.hub, self.places.cut)
        self.socket = socket_path(settings.data_dir)
        self.blobs = settings.data_dir / "blobs"
        self._reap = reap
        self._found = found
        self._tasks: list[asyncio.Task[None]] = []
        self._sending: asyncio.Task[None] | None = None
        self.started_at = time.time()
        self.clock = clock or SystemClock()
        self.people = People(self.record, settings, self.clock)
        self.outbox = Outbox(
            self.record, self.channels, resend_unknown=self._repeats(), files=self.blobs, clock=self.clock
        )
        self.spawns = AgentPool(
            self.record, agents, gateway=self.name, socket=self.socket, most=settings.max_live_agents,
            idle_after=self._idle_after, files=self._agent_files,
        )  # fmt: skip
        quiet = (QUIET_WORD, *((settings.heartbeat.quiet,) if settings.heartbeat is not None else ()))
        self.typing = Typing(self.channels, self.clock)
        deps = RunDependencies(
            self.record, self.places, dict(settings.agents), settings.permission_deadline_s, quiet,
            self.outbox.previews, self.outbox.kick, self.typing, self.blobs,
        )  # fmt: skip
        self.turns = Turns(deps, self.spawns, self.name, self.outbox.kick)
        self.commands = Commands(self.record, self.places, self, self.turns, self.outbox.kick)
        self.inbox = Inbox(self.record, settings, self.turns, self.commands)
        self.tools = ToolCalls(
            self.record, self.places, settings.agents, self.blobs, self.turns.runs.get, self.outbox.kick,
            self.spawns.holds, self.spawns.find_announcing_turn,
        )  # fmt: skip
        self.schedules = Schedules(self.record, self.clock, self.inbox.target, self.turns.wake, settings.default_agent)
        self.tools.acts.update(schedule_tools(self.schedules))
        self.jobs = Jobs(self.record, settings.background, background, self.report, self.clock)
        self.tools.acts.update(job_tools(self.jobs))
        self._jobs: asyncio.Task[None] | None = None
        self.spawns.inside = lambda session: Inside(self.record, session, self.turns.runs.get, self.tools)
        self._rests: set[asyncio.Task[None]] = set()
        self.erasures = Erasures(self.record, self.blobs, self.tools.copies)
        self.hearing = ChannelManager(
            self.inbox, self.channels, self.people, self.blobs, self.tools.copies, self.clock,
            gone=self.erasures.look, kick=self.outbox.kick,
        )  # fmt: skip
        self.rpc = RpcServer(self.socket, self.tools)
        self.searches = Search(self.record)
        self._importing = asyncio.Lock()
        self.stopping = False

    def __repr__(self) -> str:
        return f"<Gateway {self.name} {self.turns!r} {self.spawns!r} {self.hub!r}>"

    def _repeats(self) -> frozenset[str]:
        return frozenset(n for n, c in self.settings.channels.items() if c.resend_unknown)

    def _agent_files(self) -> AgentFiles:
        return AgentFiles(self.record, self.blobs, self.tools.copies, self.erasures.look)

    def _idle_after(self, agent: str) -> float:
        own = self.settings.agents[agent].idle_after
        return self.settings.idle_agent_s if own is None else own

    # ------------------------------------------------------------ start and stop

    async def start(self) -> None:
        """Recover what a dead gateway left, then start sending, receiving and running turns."""
        await self._settle_copy()
        await asyncio.to_thread(files.clear_drafts, self.blobs)
        await self._end_strangers()
        await self.people.start()
        await self.hearing.clean()
        await self.rpc.start()
        await self.commands.start()
        todo = await self.record.read(startup.unfinished)
        self._sending = asyncio.create_task(self.outbox.run(), name="outbox")
        self._sending.add_done_callback(_log_failure)
        hearing = self.hearing.start()
        for task in hearing:
            task.add_done_callback(_log_failure)
        self._tasks += hearing
        erasing = asyncio.create_task(self.erasures.run(), name="erasures")
        erasing.add_done_callback(_log_failure)
        self._tasks.append(erasing)
        for session in todo:
            self.turns.wake(session)
        await self._keep_time()
        self._jobs = asyncio.create_task(self.jobs.run(), name="jobs")
        self._jobs.add_done_callback(_log_failure)
        searching = asyncio.create_task(self.searches.run(), name="search")
        searching.add_done_callback(_log_failure)
        self._tasks.append(searching)
        log.info("gateway started", unfinished=len(todo))

    async def _settle_copy(self) -> None:
        """If the ledger was restored from a backup, settle it before anything else runs (Law 14)."""
        if await self.record.read(settle_restored.is_copy):
            done = await self.record.write(settle_restored.settle)
            if done is not None:
                log.warning(
                    "the ledger was restored from a copy: nothing is repeated that may have happened since",
                    copied=settle_restored.utc(done.copied), parts=done.parts, unanswered=done.unanswered,
                )  # fmt: skip
        before = await self.record.read(settle_restored.last)
        self.schedules.doubtful_until = self.jobs.doubtful_until = before
        self.hearing.doubt(before)

    async def _keep_time(self) -> None:
        """Start schedules and heartbeats. Missed firings are handled by each schedule's `downtime` policy."""
        await self.schedules.configure(self.settings.schedules)
        timers = [asyncio.create_task(self.schedules.run(), name="schedules")]
        if self.settings.heartbeat is not None and self.settings.heartbeat.sessions:
            beats = Heartbeats(self.record, self.clock, self.settings.heartbeat, self.turns.wake)
            timers.append(asyncio.create_task(beats.run(), name="heartbeats"))
        for task in timers:
            task.add_done_callback(_log_failure)
        self._tasks += timers

    async def _end_strangers(self) -> None:
        """Kill agents left by a dead gateway, identity checked, before any agent is started (Law 10)."""
        for left in await self.record.read(spawn_rows.left_behind):
            killed = await asyncio.to_thread(self._reap, left) if self._reap is not None else False
            why = "killed: its gateway was gone" if killed else "its gateway was gone, and so was it"
            await self.record.write(spawn_rows.ended, left.id, why)

    async def stop(self, grace: float | None = None) -> None:
        """Stop accepting events, give running turns `grace` seconds (the next gateway resumes the rest), and end."""
        await self.jobs.stop()
        if self._jobs is not None:
            await asyncio.wait({self._jobs})
        self.stopping = True
        grace = self.settings.grace_s if grace is None else grace
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=PATIENCE_S)
            for task in left:  # a channel that swallows its cancellation must not block the stop
                log.error("it was told to end and did not; it is left behind", part=task.get_name())
        await self.commands.stop()
        for rest in self._rests:
            rest.cancel()
        await self.turns.stop(grace)
        await self.typing.stop()
        await self.spawns.stop(2.0)
        await self.outbox.stop(min(grace, 5.0))
        if self._sending is not None:
            await self._sending
        await self.rpc.stop()
        await self.searches.close()

    # ------------------------------------------------------------ hearing

    async def say(
        self,
        session: str,
        text: str,
        *,
        sender: str | None = None,
        key: str | None = None,
        source: str | None = None,
        busy: Mode | None = None,
        automatic: bool = False,
        seen: int | None = None,
    ) -> Heard:
        """Accept a person's message (`automatic`: a program's) and return after the commit. Creates a new session.

        `busy` overrides the session's mode for messages that arrive during a turn. `seen` is the rev of the view that
        the person saw: a command that answers a request never means a request newer than that (Law 13).
        Raises BadRequest, Busy.
        """
        self._open()
        if not text.strip():
            raise BadRequest("text: a message needs a text that is not blank")
        return await self.inbox.hear(
            source=source or f"api:{session}", session=session, key=key, text=text, sender=sender,
            stable=("text", "sender"), busy=busy, automatic=automatic, seen=seen,
        )  # fmt: skip

    async def report(
        self,
        session: str,
        kind: str,
        text: str,
        *,
        key: str | None = None,
        data: Mapping[str, Any] | None = None,
        wakes: bool | None = None,
        source: str | None = None,
        scope: Sequence[str] | None = None,
    ) -> Heard:
        """Accept an event other than a person's message and return after the commit. Creates a new session.

        `scope`: the patterns of session keys granted to the reporting node; `None` if the owner reports. Raises
        BadRequest, Busy.
        """
        self._open()
        if kind in PERSON_KINDS or kind == COMMAND:  # a machine must not report something as said by a person
            raise BadRequest(
                f"kind: {kind!r} is the kind of what people say, which is POSTed to /v1/sessions/KEY/messages; "
                "choose another one for an event"
            )
        heard = await self.inbox.hear(
            source=source or f"api:{session}", session=session, key=key, text=text, kind=kind, data=data,
            wakes=wakes, stable=("kind", "text", "data", "session"), scope=scope,
        )  # fmt: skip
        self.jobs.heard(kind, key)
        return heard

    async def hook(self, channel: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        """Handle an inbound webhook: (HTTP status, response body). Returns after the commit (Law 1)."""
        self._open()
        one = self.channels.get(channel)
        receive = getattr(one, "receive", None)
        if receive is None:
            return 404, {"title": "No such webhook", "detail": f"no webhook channel is named {channel!r}"}
        status, answer = await receive(self.hearing.inboxes[channel], headers, body)
        return int(status), dict(answer)

    def _open(self) -> None:
        if self.stopping:
            raise Busy("the gateway is stopping; nothing was accepted, try again after the start")

    # ------------------------------------------------------------ steering a session

    async def stop_turn(self, session: str, by: str) -> bool:
        """Cancel the running turn, if there is one."""
        return bool(await self.turns.cancel(await self._id(session), Stop(by)))

    async def set_busy(self, session: str, mode: Mode | None) -> None:
        """Set how messages are treated while a turn runs in this session; `None`: as configured."""
        if mode is not None and mode not in MODES:
            raise BadRequest(f"busy: {str(mode)[:80]!r} is not one of {', '.join(MODES)}")
        await self.record.write(entries.set_busy, await self._id(session), mode)

    async def set_mode(self, session: str, mode: str) -> None:
        """Switch the agent's mode (ACP session modes), from its next step on."""
        live = await self._live(session)
        await live.conversation.set_mode(mode)
        await self.record.write(entries.set_about, live.session, {"mode": mode})

    async def set_model(self, session: str, model: str) -> None:
        """Switch the agent's model."""
        live = await self._live(session)
        await live.conversation.set_model(model)
        await self.record.write(entries.set_about, live.session, {"model": model})

    def fixed_model(self, agent: str) -> str | None:
        """The configured model of an agent of kind "model". `None` for other agents, which report their models."""
        own = self.settings.agents.get(agent)
        return own.model.model if own is not None and own.model is not None else None

    async def diff_agent(self, session: str) -> Json:
        """The differences between the agent's own history and the transcript (see `semel.gateway.api.memory_diff`)."""
        return await MemoryComparison(self.turns, self.spawns).difference(await self._id(session))

    async def jobs_of(self, session: str | None = None) -> list[Json]:
        """The background jobs of a session, newest first; without a session, all unfinished jobs."""
        return await self.jobs.list(None if session is None else await self._id(session))

    async def cancel_job(self, id: str, by: str) -> Json:
        """Cancel a background job, wait a while for its end, and return its state then. Raises NotFound, Conflict."""
        return await self.jobs.cancel(id, by)

    async def _live(self, session: str) -> Any:
        live = self.spawns.live.get(await self._id(session))
        if live is None:
            raise BadRequest("the agent of this session is not running; send a message first")
        return live


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("a part of the gateway stopped until the next start", part=task.get_name(), exc_info=fault)
