"""The composition root: builds ledger, agents, channels, gateway and HTTP server from a configuration (`semel up`).

async with open_gateway(config) as running:
    ...                                  # the gateway serves at running.url until the block ends

The port is bound before anything starts, because binding may fail. At the end the gateway stops before the HTTP
server, so that watchers still see the last turns finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from starlette.applications import Starlette
from starlette.datastructures import State

import semel.channels
from semel.agents.acp import AcpAgent, kill_group_if_same
from semel.agents.known import find_agents_on_path
from semel.agents.model import ModelAgent
from semel.channels import ChannelError
from semel.faces.address_file import publish_address, write_private
from semel.faces.build_agents import build_agent, build_workplaces
from semel.faces.cluster import ClusterCaller, ClusterLink, start_again, take_place, wait_after_failure
from semel.faces.config import ConfigError
from semel.faces.config.load import GatewayConfig
from semel.faces.editor_commands import EditorCommands
from semel.faces.http import Server, Settings, TokenNeeded, make_app
from semel.faces.http.app import make_cluster_app
from semel.faces.http.operations.login import LoginLink, make_login_link
from semel.faces.http.page_urls import list_page_urls
from semel.faces.http.server import UnixServer, bind
from semel.faces.http.settings import NodeSettings, is_loopback
from semel.faces.log import keep_log_file
from semel.gateway import Gateway
from semel.gateway.activity import log_activity
from semel.gateway.bucket import lacks_client
from semel.gateway.clock import LedgerClock
from semel.gateway.ports import AgentError
from semel.gateway.seats import Seats
from semel.gateway.tracing import RecordSpan
from semel.gateway.unix_socket import SocketRefused, UnixListener, socket_path
from semel.installation import find_install_command
from semel.ledger.backup.settle_restored import is_unsettled_copy
from semel.ledger.engines import lacks_engine, open_hints, open_ledger
from semel.ledger.inbound import nodes
from semel.ledger.storage.cluster import ClusterMember
from semel.ledger.storage.errors import LedgerUnreachable
from semel.ledger.storage.location import DatabaseUrl
from semel.ledger.storage.migrations import Upgrade
from semel.ledger.storage.rows import LedgerRow
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import LedgerStore
from semel.ledger.turns.spawns import OrphanedProcess
from semel.text.json_types import Json
from semel.text.write_errors import advise_on_write_error
from semel.tools import trusted_files
from semel.tools.address import find_last_config, find_start_command, list_as_running
from semel.tools.exec.background import SupervisorRunner
from semel.tools.http_tools import MCP_PATH

log = structlog.get_logger("semel.run")
TRACE_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Environment variables of OpenTelemetry that switch on the export of traces."""

OWNER_TOKEN_FILE = "owner.token"  # file in the data directory; whoever can read it is the owner


class CannotStart(Exception):
    """The gateway could not start. The message gives the reason."""


@dataclass
class RunningGateway:
    """A running gateway with its HTTP server."""

    config: GatewayConfig
    gateway: Gateway
    server: Server
    agent_checks: dict[str, Json]  # what was found when each agent was tried; /v1/status shows it
    state: State  # of the HTTP application
    unread_config: Path | None = None  # what the gateway before it read, while this one has read no file
    stopped: bool = False

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def page_urls(self) -> list[str]:
        """The page's URLs, the most useful first, also those for other machines if the gateway listens for them."""
        return list(self.state.page_urls)

    @property
    def is_local(self) -> bool:
        """Whether the gateway listens on this machine only. Then its own user needs no login."""
        return is_loopback(self.config.host)

    def make_login_link(self) -> LoginLink | None:
        """Make a link that logs one browser in, once; None if another gateway is the active one, which keeps codes."""
        seats = self.gateway.seats
        return make_login_link(self.state) if seats is None or seats.active is None else None

    @property
    def turns(self) -> int:
        """The number of running turns."""
        return len(self.gateway.turns.runs)

    def describe(self) -> str:
        """Return one line about the gateway, for its service manager."""
        return f"serving {self.url}; {self.turns} running {'turn' if self.turns == 1 else 'turns'}"

    async def stop(self, at_once: asyncio.Event | None = None) -> None:
        """Stop the gateway. Running turns get the configured grace period; setting `at_once` ends it early."""
        if self.stopped:
            return
        self.stopped = True
        stop_task = asyncio.create_task(self.gateway.stop(self.config.gateway.grace_s))
        cut_short = asyncio.create_task((at_once or asyncio.Event()).wait())
        await asyncio.wait({stop_task, cut_short}, return_when=asyncio.FIRST_COMPLETED)
        cut_short.cancel()
        if not stop_task.done():
            stop_task.cancel()
            await asyncio.gather(stop_task, return_exceptions=True)
            await self.gateway.stop(0.0)
        else:
            stop_task.result()


@contextlib.asynccontextmanager
async def open_gateway(config: GatewayConfig, caller: ClusterCaller | None = None) -> AsyncIterator[RunningGateway]:
    """Start everything, and stop it cleanly when the block ends. In a cluster, first wait until it may take over.

    A gateway of a cluster also waits if the database stops answering while it starts.
    `caller`: who starts a gateway of a cluster. Raises StoppedWaiting, ConfigError, LedgerError (another gateway uses
    the ledger, a newer schema, a full disk ...), CannotListen or CannotStart, and leaves nothing running.
    """
    caller = caller or ClusterCaller()
    async with contextlib.AsyncExitStack() as stack:
        running: RunningGateway | None = None
        while running is None:
            try:
                running = await stack.enter_async_context(_start_once(config, caller))
            except LedgerUnreachable as error:
                if not config.cluster.name:
                    raise
                await wait_after_failure(config, caller, error)
        yield running


@contextlib.asynccontextmanager
async def _start_once(config: GatewayConfig, caller: ClusterCaller) -> AsyncIterator[RunningGateway]:
    """See `open_gateway`. Raises LedgerUnreachable also in a cluster."""
    settings = config.gateway
    _make_directories(config)
    unread = find_last_config(settings.data_dir) if config.path is None else None
    if unread is not None:
        log.warning(
            "no configuration file is read, but the last gateway on this data read one",
            file=str(unread), again=find_start_command(settings.data_dir),
        )  # fmt: skip
    try:
        if problems := _find_storage_problems(config):
            raise ConfigError(*problems)
        channels = semel.channels.make_all(settings.channels)
        http = _build_http_settings(config)
    except (ChannelError, TokenNeeded) as error:
        raise ConfigError(str(error)) from None
    async with contextlib.AsyncExitStack() as stack:
        sockets = await _bind_address(config, stack) if config.cluster.name else []
        member = await _take_place(config, http, caller, sockets, stack) if config.cluster.name else None
        upgrades: list[Upgrade] = []
        store = await asyncio.to_thread(open_ledger, settings.ledger, partial(_announce_upgrade, upgrades), member)
        stack.push_async_callback(asyncio.to_thread, store.close)
        seats = link = None
        if member is not None:
            seats = _make_seats(config, member)
            link = ClusterLink(seats, partial(start_again, config, caller))
            member.report_to(link)
            await link.wait_until_known()
        stack.enter_context(keep_log_file(settings.data_dir))  # this process holds the ledger's lock now
        if member is None and not store.was_closed and not await store.read(is_unsettled_copy):
            log.warning(
                "the last gateway on this data did not stop properly: it was killed, or the machine lost power; "
                "what it left unfinished is settled now"
            )
        for upgrade in upgrades:
            versions = f"from version {upgrade.found} to {upgrade.wanted}"
            log_activity(f"the ledger was upgraded {versions}; {_name_way_back(upgrade)}")
        http = http.model_copy(update={"nodes": await _recall_sources(store, http.nodes)})
        sockets = sockets or await _bind_address(config, stack)  # before anything starts: the port may be taken
        agents = await asyncio.to_thread(_build_agents, config)
        workplaces = build_workplaces(config)
        listener = _listen_locally(settings.data_dir)  # agents connect while the gateway starts
        stack.callback(listener.close)
        agent_checks: dict[str, Json] = {}
        background = SupervisorRunner(settings.data_dir, workplaces)
        gateway = Gateway(
            settings,
            store,
            agents,
            channels,
            reap=_kill_orphaned_agent,
            list_installed_agents=lambda: [dict(program) for program in find_agents_on_path()],
            find_or_make_agent=EditorCommands(config, workplaces).find_or_make_agent,
            agent_checks=agent_checks,
            clock=LedgerClock(store.now),
            background=background,
            tools_url=_make_tools_url(sockets),
            record_span=await _open_traces(store, stack),
            seats=seats,
            hand_over=member.hand_over if member is not None else lambda: None,
        )
        app = make_app(gateway, http) if seats is None else await _make_cluster_app(gateway, seats, http, stack)
        running = RunningGateway(config, gateway, Server(app, sockets, config.host), agent_checks, app.state, unread)
        app.state.page_urls = list_page_urls(config.host, running.server.port, config.http.hosts)
        servers: list[Server | UnixServer] = [running.server, UnixServer(app, listener)]
        stack.push_async_callback(_stop_all, servers)
        stack.push_async_callback(running.stop)  # ends first: watchers see the last turns finish
        await gateway.start()
        if link is not None:
            duties = asyncio.create_task(link.pass_duties_to(gateway), name="wait for the duties")
            stack.callback(duties.cancel)
        for server in servers:
            await server.start()
        published = publish_address(
            settings.data_dir, config.path, running.url, listener.path, gives_way=config.gives_way
        )
        with list_as_running(settings.data_dir), published:
            yield running


async def _bind_address(config: GatewayConfig, stack: contextlib.AsyncExitStack) -> list[socket.socket]:
    sockets = await bind(config.host, config.port)
    for sock in sockets:
        stack.callback(sock.close)
    return sockets


async def _take_place(
    config: GatewayConfig,
    http: Settings,
    caller: ClusterCaller,
    sockets: Sequence[socket.socket],
    stack: contextlib.AsyncExitStack,
) -> ClusterMember:
    """Wait until this gateway of a cluster may run turns."""
    try:
        member = await take_place(config, http, caller, sockets)
    except SocketRefused as error:
        raise CannotStart(str(error)) from None
    stack.push_async_callback(asyncio.to_thread, member.leave)
    return member


def _make_seats(config: GatewayConfig, member: ClusterMember) -> Seats:
    settings = config.gateway
    assert isinstance(settings.ledger, DatabaseUrl)
    hints = open_hints(settings.ledger, config.cluster.name, lambda: seats.has_duties)
    seats = Seats(config.cluster.name, hints, settings.moving_agents, settings.max_live_agents)
    seats.has_duties = member.has_taken_over
    return seats


async def _make_cluster_app(
    gateway: Gateway, seats: Seats, http: Settings, stack: contextlib.AsyncExitStack
) -> Starlette:
    from semel.faces.http.forwarding import Forwarder  # only now: other gateways need no HTTP client

    forwarder = Forwarder(seats.name, http, seats.lives)
    stack.push_async_callback(forwarder.close)
    return make_cluster_app(gateway, seats, http, forwarder)


def _announce_upgrade(upgrades: list[Upgrade], upgrade: Upgrade) -> None:
    """Log on stderr that the ledger is upgraded now, which may take long. The log file is opened after it."""
    upgrades.append(upgrade)
    log.warning(
        f"the ledger was written by an older Semel and is upgraded now; {_name_way_back(upgrade)}, to go back",
        found=upgrade.found, wanted=upgrade.wanted, copy=str(upgrade.copy),
    )  # fmt: skip


def _name_way_back(upgrade: Upgrade) -> str:
    return "a copy of it is kept" if upgrade.copy is not None else "the database's last backup is what you have"


async def _open_traces(store: LedgerStore, stack: contextlib.AsyncExitStack) -> RecordSpan | None:
    """Open the export of traces if OpenTelemetry's environment variables ask for it. Raises ConfigError."""
    if not any(map(os.environ.get, TRACE_ENDPOINTS)) or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    try:
        from semel.faces.otel import SpanExport
    except ImportError:
        raise ConfigError(
            f"OTEL_EXPORTER_OTLP_ENDPOINT is set, and traces need OpenTelemetry: {find_install_command('otel')}"
        ) from None
    export = SpanExport(await store.read(_read_ledger_name))
    stack.push_async_callback(asyncio.to_thread, export.close)
    return export


def _read_ledger_name(tx: Tx) -> str:
    return tx.get(LedgerRow, "ledger_get").name


def _listen_locally(data_dir: Path) -> UnixListener:
    try:
        return UnixListener(socket_path(data_dir))
    except SocketRefused as error:
        raise CannotStart(str(error)) from None


def _make_tools_url(sockets: Sequence[socket.socket]) -> str | None:
    """Return the URL of the MCP server on loopback; `None` if the gateway listens on other addresses only."""
    for sock in sockets:
        host, port = sock.getsockname()[:2]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        if is_loopback(host):
            return f"http://[{host}]:{port}{MCP_PATH}" if ":" in host else f"http://{host}:{port}{MCP_PATH}"
    return None


async def _stop_all(servers: Sequence[Server | UnixServer]) -> None:
    await asyncio.gather(*(server.stop() for server in servers))


def _make_directories(config: GatewayConfig) -> None:
    """Create the data directory, private to the owner, and the directories for the ledger and the workspaces in it."""
    settings = config.gateway
    ours = [agent.cwd for agent in settings.agents.values() if agent.cwd.is_relative_to(settings.data_dir)]
    try:
        trusted_files.make_directory(settings.data_dir, link=True)
        for place in (*([settings.ledger.parent] if isinstance(settings.ledger, Path) else []), *ours):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except trusted_files.UntrustedFile as error:
        raise CannotStart(str(error)) from None
    except OSError as error:
        raise CannotStart(_explain_unwritable(Path(error.filename or settings.data_dir), error)) from error


def _explain_unwritable(path: Path, error: OSError) -> str:
    """Say that a file or directory cannot be made or written, why, and what to do."""
    return f"{path} cannot be written: {error.strerror or error}. {advise_on_write_error(error)}".strip()


def _build_http_settings(config: GatewayConfig) -> Settings:
    token = read_owner_token(config.gateway.data_dir)
    for node in config.nodes:
        if node.token == token:
            raise ConfigError(f"[nodes.{node.name}] has the owner's token: a node needs its own")
    return Settings(listen=config.host, token=token, nodes=config.nodes, **dict(config.http))


async def _recall_sources(store: LedgerStore, configured: Sequence[NodeSettings]) -> tuple[NodeSettings, ...]:
    """Give each node the event source that the ledger recorded for its token: a renamed node keeps its own (Law 1)."""
    sources = await store.write(nodes.assign_sources, {node.name: node.digest for node in configured})
    return tuple(node.model_copy(update={"recorded_source": sources[node.name]}) for node in configured)


def read_owner_token(data_dir: Path) -> str:
    """Read the owner's token; it is created at the first start. Raises CannotStart if other users may read the file."""
    path = data_dir / OWNER_TOKEN_FILE
    try:
        with contextlib.suppress(FileExistsError):
            write_private(path, secrets.token_urlsafe(32) + "\n")
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise CannotStart(f"{path} can be read by others. Keep it for yourself: chmod 600 {path}")
        token = trusted_files.read_file(path, link=True).decode("ascii").strip()
    except trusted_files.UntrustedFile as error:
        raise CannotStart(str(error)) from None
    except OSError as error:
        raise CannotStart(_explain_unwritable(path, error)) from error
    except UnicodeDecodeError:
        raise CannotStart(f"{path} contains no token. Remove it, and the next start makes one") from None
    if len(token) < 16:
        raise CannotStart(f"{path} contains no token. Remove it, and the next start makes one")
    return token


def _build_agents(config: GatewayConfig) -> dict[str, AcpAgent | ModelAgent]:
    """Build the configured agents. Raises ConfigError now, not at the first message, if a model cannot be used."""
    agents: dict[str, AcpAgent | ModelAgent] = {}
    for name, settings in config.gateway.agents.items():
        agents[name] = agent = build_agent(settings, config)
        if isinstance(agent, ModelAgent):
            try:
                agent.check()
            except AgentError as error:
                raise ConfigError(str(error)) from None
    return agents


def find_build_problems(config: GatewayConfig) -> list[str]:
    """Return why `open_gateway` would refuse the channels and models of a configuration. Nothing is started."""
    problems = semel.channels.try_all(config.gateway.channels)[1]
    if lacks_engine(config.gateway.ledger):
        problems.append(f"[ledger] url names a database, which needs psycopg: {find_install_command('postgres')}")
    problems += _find_storage_problems(config)
    for settings in config.gateway.agents.values():
        agent = build_agent(settings, config)
        try:
            if isinstance(agent, ModelAgent):
                agent.check()
        except AgentError as error:
            problems.append(str(error))
    return problems


def _find_storage_problems(config: GatewayConfig) -> list[str]:
    """Return why the files of messages cannot be in object storage, where they belong."""
    if config.gateway.files.url and lacks_client():
        return [f"[files] url names object storage, which needs obstore: {find_install_command('s3')}"]
    return []


def describe_model_keys(config: GatewayConfig) -> Iterator[str]:
    """Yield which API key each model's server gets, or why none. `find_build_problems` must have found none."""
    for settings in config.gateway.agents.values():
        agent = build_agent(settings, config)
        if isinstance(agent, ModelAgent):
            agent.check()
            yield f"[agents.{agent.name}] {agent.describe_key()}"


def _kill_orphaned_agent(process: OrphanedProcess) -> bool:
    """Kill an agent process that a dead gateway left behind, with its group (Law 10). Returns whether it was there."""
    if process.pid is None or process.pgid is None or process.born is None:
        return False
    return kill_group_if_same(process.pid, process.pgid, process.born)
