"""Build the components of a gateway and connect them.

Only the gateway sends to platforms, writes the transcript and feeds live views; agents and channels go through it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from semel.gateway.api.book_checks import BookChecks
from semel.gateway.api.erasures import Erasures
from semel.gateway.api.retention import Retention
from semel.gateway.api.search import Search, index_path
from semel.gateway.clock import Clock, SystemClock
from semel.gateway.errors import BadRequest, GatewayUnavailable
from semel.gateway.file_store import FileStore
from semel.gateway.inbound.admission import AccountDirectory
from semel.gateway.inbound.channel_manager import ChannelManager
from semel.gateway.inbound.commands import Commands
from semel.gateway.inbound.inbox import EventInbox
from semel.gateway.inbound.refused_requests import NodeRefusals
from semel.gateway.inbound.uploads import Uploads
from semel.gateway.list_feed import ListFeed
from semel.gateway.mcp_servers import McpServerStore
from semel.gateway.object_files import make_stored_files
from semel.gateway.outbound.destinations import Destinations
from semel.gateway.outbound.outbox import Outbox
from semel.gateway.outbound.typing import Typing
from semel.gateway.ports import Agent, Background, Channel, Heard
from semel.gateway.readiness import Readiness
from semel.gateway.record import Hub, LedgerAccess
from semel.gateway.seats import Seats
from semel.gateway.settings import AgentSettings, GatewaySettings
from semel.gateway.tools.heartbeats import Heartbeats
from semel.gateway.tools.job_tools import make_job_tools
from semel.gateway.tools.jobs import JobManager
from semel.gateway.tools.schedule_tools import make_schedule_tools
from semel.gateway.tools.schedules import ScheduleManager
from semel.gateway.tools.tool_calls import ToolCallHandler
from semel.gateway.tracing import RecordSpan
from semel.gateway.transcription import Transcriber
from semel.gateway.turns.agent_files import AgentFiles
from semel.gateway.turns.agent_pool import AgentPool
from semel.gateway.turns.event_files import EventFiles
from semel.gateway.turns.in_process_services import InProcessServices
from semel.gateway.turns.scheduler import TurnScheduler
from semel.gateway.turns.session_controls import SessionControls
from semel.gateway.unix_socket import socket_path
from semel.law.echo import QUIET_WORD
from semel.law.wake import PERSON_KINDS
from semel.ledger.inbound.commands import KIND as COMMAND
from semel.ledger.storage.store import LedgerStore
from semel.ledger.turns.spawns import OrphanedProcess
from semel.text.json_types import Json

FindOrMakeAgent = Callable[
    [Sequence[str], str | None, str | None], Awaitable[tuple[AgentSettings, Agent | None]]
]  # fmt: skip
"""(command, PATH, folder) -> the agent's settings, and the agent if the gateway does not have it like this yet. Without
a PATH, none is made. A new one is tried in the folder. Raises BadRequest, AgentError."""
OTHER_GATEWAYS_DELETION_MS = 60_000  # another gateway has ended the agent of a session that it deletes in less time


class Components:
    """The components of a gateway, as attributes. `Gateway`, the last subclass, starts and stops them.

    The subclasses are the gateway's API. `report` is part of the API too, but is defined here because background jobs
    use it.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        store: LedgerStore,
        agents: Mapping[str, Agent],
        channels: Mapping[str, Channel] | None = None,
        *,
        reap: Callable[[OrphanedProcess], bool] | None = None,
        list_installed_agents: Callable[[], list[Json]] | None = None,
        find_or_make_agent: FindOrMakeAgent | None = None,
        agent_checks: Mapping[str, Json] | None = None,
        clock: Clock | None = None,
        background: Background | None = None,
        tools_url: str | None = None,
        record_span: RecordSpan | None = None,
        seats: Seats | None = None,
        hand_over: Callable[[], object] = lambda: None,
    ) -> None:
        """Build the components. None of them runs yet.

        `reap`: kills an agent process that a dead gateway left running, if it is still the same process, and returns
        whether it did (Law 10). `list_installed_agents`: lists the agents found on this machine, for `status`.
        `find_or_make_agent`: finds the agent of an editor's command, or keeps and makes one; None: it is not offered.
        `agent_checks`: the result of trying each agent, by name, for `status`; the caller adds results later.
        `tools_url`: the URL at which agents reach Semel's MCP server; None if it is not served over HTTP.
        `record_span`: gets the spans of each event, for traces. `seats`: the sessions that this gateway serves, if
        several share the ledger; None if it is the only one. `hand_over`: lets another one of them take the duties. It
        blocks.
        """
        self.name = f"{os.getpid()}-{secrets.token_hex(8)}"  # the name of this run, under which it holds its lease
        self.started_at = time.time()
        self.stopping = False
        self.seats = seats
        self.hand_over = hand_over
        self.settings = settings
        self.store = store
        self.channels = dict(channels or {})
        self.clock = clock or SystemClock()
        self.reap = reap
        self.list_installed_agents = list_installed_agents
        self.find_or_make_agent = find_or_make_agent
        self.agent_checks = {} if agent_checks is None else agent_checks
        self.hub = Hub()
        self.list_feed = ListFeed(self.hub)
        self.places = Destinations(settings.destinations, settings.channels, self.channels)
        tell_others = None if seats is None else seats.hints.tell_changed
        self.record = LedgerAccess(store, self.hub, self.places.make_claim_legs, tell_others)
        self.readiness = Readiness(store)
        self.socket = socket_path(settings.data_dir)
        self.file_store = FileStore(make_stored_files(store, settings.data_dir / "blobs", settings.files))
        self.mcp_servers = McpServerStore(settings.data_dir / "mcp-servers")
        self.people = AccountDirectory(self.record, settings, self.clock)
        self.node_refusals = NodeRefusals(self.clock, self.people.strangers)
        resend_unknown = frozenset(name for name, channel in settings.channels.items() if channel.resend_unknown)
        reserve = frozenset(name for name, channel in settings.channels.items() if channel.reserve)
        self.outbox = Outbox(
            self.record,
            self.channels,
            self.clock,
            resend_unknown=resend_unknown,
            reserve=reserve,
            files=self.file_store.content,
            record_span=record_span,
            is_online=lambda channel: self.channel_manager.status[channel].state == "online",
            runs=lambda: self.has_duties,
        )
        kick = self._kick_outbox
        self.spawns = AgentPool(
            self.record, dict(agents), configured=settings.configured_agents, gateway=self.name, socket=self.socket,
            tools_url=tools_url, max_processes=settings.max_live_agents,
            idle_after_s=self._idle_after, make_files=lambda: AgentFiles(self.record, self.file_store),
            read_mcp_servers=self.mcp_servers.read,
            make_inside=lambda session: InProcessServices(self.record, session, self.turns.runs.get, self.tools),
            seat_rule=None if seats is None else seats.rule,
            may_move=lambda agent: seats is not None and seats.lets_move(agent),
        )  # fmt: skip
        content = self.file_store.content
        transcriber = Transcriber(settings.transcription, content)
        self.typing = Typing(self.channels, self.clock, lambda: self.has_duties)
        self.turns = TurnScheduler(
            self.record, self.places, settings.agents, self.spawns, lease=self.name, previews=self.outbox.previews,
            typing=self.typing, kick=kick, make_event_files=partial(EventFiles, self.record, content, transcriber),
            permission_deadline=settings.permission_deadline_s,
            limits=settings.limits.policy,
            configured=settings.configured_agents,
            quiet=(QUIET_WORD, *((settings.heartbeat.quiet,) if settings.heartbeat.sessions else ())),
            record_span=record_span,
            seats=seats,
        )  # fmt: skip
        if seats is not None:
            seats.count_agents = self.spawns.count_processes
        self.controls = SessionControls(self.record, settings.agents, self.turns, self.spawns, kick)
        self.commands = Commands(
            self.record,
            self.places,
            self.people,
            self.turns,
            self.controls,
            lease=self.name,
            kick=kick,
            seats=seats,
        )
        self.inbox = EventInbox(self.record, settings, self.turns, self.commands)
        heartbeats = Heartbeats(self.record, self.clock, settings.heartbeat, self.turns.wake)
        self.schedules = ScheduleManager(
            self.record,
            self.clock,
            self.inbox.make_addressee,
            self.turns.wake,
            settings.default_agent,
            heartbeats,
            self._tell_duties,
        )
        self.jobs = JobManager(self.record, settings.background, background, self.report, self.clock, self.cluster_name)
        self.tools = ToolCallHandler(
            self.record, self.places, settings.agents, self.file_store, self.turns.runs.get, kick, self.spawns,
            silent_tools={**make_schedule_tools(self.schedules), **make_job_tools(self.jobs)},
            find_trace=self.turns.traces.get,
        )  # fmt: skip
        min_age_ms = 0 if seats is None else OTHER_GATEWAYS_DELETION_MS
        self.erasures = Erasures(self.record, self.file_store, min_age_ms)
        self.retention = Retention(self.record, settings, self.clock, self.file_store.unused.set)
        self.uploads = Uploads(self.record, self.file_store, self.clock)
        self.channel_manager = ChannelManager(self.inbox, self.channels, self.people, self.file_store, self.clock, kick)
        self.searches = Search(self.record, index_path(store.file, settings.data_dir))
        after_crash = not store.was_closed  # for a gateway that takes over later, `take_duties` decides
        self.book_checks = BookChecks(self.record, settings.data_dir, self.clock, kick, after_crash=after_crash)
        self._importing = asyncio.Lock()  # one import at a time
        self._deletions: set[asyncio.Task[None]] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # the tasks that `start` created

    def __repr__(self) -> str:
        return f"<Gateway {self.name} {self.turns!r} {self.spawns!r} {self.hub!r}>"

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
        """Accept an event that is not a person's message. Return after the commit. A missing session is created.

        `session`: the session's key. `key`: the idempotency key. `source`: None names the API callers of this session.
        `wakes`: whether the event wakes the agent; None decides by `kind`. `scope`: the patterns of session keys that
        the reporting node may use; None if the owner reports. Raises BadRequest, GatewayUnavailable.
        """
        self._check_running()
        if kind in PERSON_KINDS or kind == COMMAND:  # a machine must not report something as said by a person
            raise BadRequest(
                f"kind: {kind!r} is the kind of what people say, which is POSTed to /v1/sessions/KEY/messages; "
                "choose another one for an event"
            )
        heard = await self.inbox.hear(
            source=source or f"api:{session}", session=session, key=key, text=text, kind=kind, data=data,
            wakes=wakes, stable=("kind", "text", "data", "session"), scope=scope,
        )  # fmt: skip
        self.jobs.note_end(kind, key)
        return heard

    @property
    def has_duties(self) -> bool:
        """Whether this gateway does what only one may do: channels, outbox, schedules, erasures."""
        return self.seats is None or self.seats.has_duties

    @property
    def cluster_name(self) -> str | None:
        """This gateway's name among those that share the ledger; None if it is the only one."""
        return None if self.seats is None else self.seats.name

    def _kick_outbox(self) -> None:
        self.outbox.kick()
        self._tell_duties()

    def _tell_duties(self) -> None:
        if self.seats is not None:
            self.seats.tell_duties()

    def _check_running(self) -> None:
        if self.stopping:
            raise GatewayUnavailable("the gateway is stopping; nothing was accepted, try again after the start")

    def _idle_after(self, agent: str) -> float:
        of_agent = self.settings.agents[agent].idle_after_s
        return self.settings.idle_after_s if of_agent is None else of_agent
