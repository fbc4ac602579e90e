"""One of several gateways on a database (`[cluster]`): it waits until it may run turns, and stops at once when another
one has taken its place.

A gateway that lost its place may still run agents, and has messages under way. None of its transactions commits any
more; but its agents would act beside those of the other gateway. So it kills them, and starts its own program again,
which waits. What a kill leaves undone, the other gateway does.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from platform import node as read_host_name
from socket import socket
from typing import NoReturn

import structlog

from semel import __version__
from semel.faces.address_file import note_wait, publish_address
from semel.faces.config.load import GatewayConfig
from semel.faces.http.server import Server, UnixServer
from semel.faces.http.settings import Settings
from semel.faces.standard_streams import flush_streams
from semel.gateway import Gateway
from semel.gateway.process_identity import SOCKET_VARIABLE, kill_tagged_processes
from semel.gateway.seats import Lives, Seats
from semel.gateway.unix_socket import UnixListener, socket_path
from semel.ledger.engines import join_cluster
from semel.ledger.storage.cluster import ClusterGateway, ClusterMember, GatewayIdentity
from semel.ledger.storage.errors import LedgerUnreachable
from semel.ledger.storage.location import DatabaseUrl
from semel.tools.address import GATEWAY_FILE

log = structlog.get_logger("semel.cluster")

ATTEMPT_INTERVAL_S = 0.3  # seconds between two attempts to take over
BEAT_INTERVAL_S = 0.5  # seconds between two signs of life of the event loop
HANG_S = 4.0  # an event loop without one for longer hangs: the gateway's place is not renewed, and lost 8 s later
MAX_LOGGED_FRAMES = 6  # of the thread that hangs
START_INTERVAL_S = 1.0  # seconds before a start is tried again that the database has cut short
ATTEMPTS_PER_REMARK = 10  # one of so many is told to the caller, which shows its service manager that the gateway lives


class StoppedWaiting(Exception):
    """The gateway was told to stop before it could run turns."""


@dataclass
class ClusterCaller:
    """Who starts a gateway of a cluster. `stop`: ends the waiting. `tell`: gets a line about it, again and again.

    `environment`: variables that were removed from the process's own, and that it needs when it starts again.
    """

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    tell: Callable[[str], object] = lambda _: None
    environment: Mapping[str, str] = field(default_factory=dict)


async def take_place(
    config: GatewayConfig, http: Settings, caller: ClusterCaller, sockets: Sequence[socket]
) -> ClusterMember:
    """Wait until this gateway may run turns, as the active one or beside it, and return its place.

    It waits if the active one cannot be reached, or is of another version. `http`: who may ask the gateway. `sockets`:
    on which it will listen; meanwhile, it lets the active one answer there.
    Raises StoppedWaiting, SocketRefused (another gateway uses the data directory) or LedgerError.
    """
    assert isinstance(config.gateway.ledger, DatabaseUrl)
    path = socket_path(config.gateway.data_dir)
    room, digest = config.gateway.max_live_agents, hashlib.sha256((http.token or "").encode()).hexdigest()
    identity = GatewayIdentity(config.cluster.name, config.cluster.address, read_host_name(), __version__, room, digest)
    with contextlib.closing(UnixListener(path)) as listener:  # no other gateway uses the data directory
        (config.gateway.data_dir / GATEWAY_FILE).unlink(missing_ok=True)  # of a killed one
        await asyncio.to_thread(_end_agents, path)  # that an earlier gateway left: another one may run theirs now
        member = await asyncio.to_thread(join_cluster, config.gateway.ledger, identity)
        try:
            if not await _try_to_take_place(member):
                async with _answer_others(config, http, sockets, listener, member) as update:
                    await _wait_for_place(member, caller, update)
        except BaseException:
            await asyncio.to_thread(member.leave)
            raise
    return member


async def _try_to_take_place(member: ClusterMember) -> bool:
    if await asyncio.to_thread(member.try_to_take_over):
        return True
    return member.may_serve and _has_address(member.active) and member.address is not None


async def _wait_for_place(member: ClusterMember, caller: ClusterCaller, update: Callable[[], str]) -> None:
    last_text, attempts = "", 0
    gc.enable()  # `semel up` starts without, and this may take days
    while not await _try_to_take_place(member):
        if (text := update()) != last_text:
            log.log(logging.INFO if member.problem is None else logging.WARNING, text)
        if text != last_text or attempts % ATTEMPTS_PER_REMARK == 0:
            caller.tell(text)
        last_text, attempts = text, attempts + 1
        await _wait_or_stop(caller, ATTEMPT_INTERVAL_S)


async def wait_after_failure(config: GatewayConfig, caller: ClusterCaller, error: LedgerUnreachable) -> None:
    """Wait a moment before the gateway is started again, because the database did not answer while it started.

    Raises StoppedWaiting.
    """
    gc.enable()  # as in `_wait_for_place`
    text = f"waits: {error}"
    log.warning(text)
    caller.tell(text)
    with _noting_wait(config) as note_reason:
        note_reason(text)
        await _wait_or_stop(caller, START_INTERVAL_S)


async def _wait_or_stop(caller: ClusterCaller, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await caller.stop.wait()
            raise StoppedWaiting


@contextlib.contextmanager
def _noting_wait(config: GatewayConfig) -> Iterator[Callable[[str | None], None]]:
    """Yield a function that publishes why this gateway can take no place. When the block ends, it waits no more."""
    last: str | None = None

    def note_reason(why: str | None) -> None:
        nonlocal last
        if why != last:
            last = why
            note_wait(config.gateway.data_dir, config.cluster.name, why)

    note_wait(config.gateway.data_dir, config.cluster.name, None)  # of a killed one
    try:
        yield note_reason
    finally:
        note_reason(None)


@contextlib.asynccontextmanager
async def _answer_others(
    config: GatewayConfig, http: Settings, sockets: Sequence[socket], listener: UnixListener, member: ClusterMember
) -> AsyncIterator[Callable[[], str]]:
    """Let the active gateway answer what this one is asked, until the block ends.

    Yield a function that takes note of who is active and returns a line about it.
    """
    from semel.faces.http.forwarding import Forwarder  # only now: most gateways never wait, and need no HTTP client
    from semel.faces.http.waiting import make_waiting_app

    lives = Lives()
    forwarder = Forwarder(config.cluster.name, http, lives)
    app = make_waiting_app(http, forwarder)
    server, unix_server = Server(app, [sock.dup() for sock in sockets], config.host), UnixServer(app, listener)
    await server.start()
    await unix_server.start()
    published = contextlib.ExitStack()  # while the active one answers here
    waiting = contextlib.ExitStack()
    note_waiting = waiting.enter_context(_noting_wait(config))

    def update() -> str:
        had_address = _has_address(app.state.active)
        app.state.active = member.active
        lives.note_living([] if member.active is None else [member.active])
        if _has_address(member.active) and not had_address:
            data_dir, name = config.gateway.data_dir, config.cluster.name
            place = (data_dir, config.path, server.url, listener.path, name)
            published.enter_context(publish_address(*place, gives_way=config.gives_way))
        elif had_address and not _has_address(member.active):
            published.close()
        text = _describe_wait(member)
        note_waiting(None if member.problem is None and member.active is not None else text)
        return text

    try:
        yield update
    finally:
        published.close()
        waiting.close()
        await asyncio.gather(server.stop(1.0), unix_server.stop(1.0))
        await forwarder.close()


def _has_address(gateway: ClusterGateway | None) -> bool:
    return gateway is not None and gateway.address is not None


def _describe_wait(member: ClusterMember) -> str:
    active = member.active
    if member.problem is not None:
        return f"waits: {member.problem}"
    if active is None:
        return "waits: a gateway that is not of this cluster uses the database"
    return f"waits to take over from {active.name}{f' at {active.address}' if active.address else ''}"


class ClusterLink:
    """Tells a gateway what happens to its place in the cluster (`ClusterWatcher`). Create it on the event loop.

    `lose`: ends this gateway at once; it is called on any thread, with the reason.
    """

    def __init__(self, seats: Seats, lose: Callable[[str], object]) -> None:
        self._seats = seats
        self._lose = lose
        self._loop = asyncio.get_running_loop()
        self._knows_others = asyncio.Event()
        self._is_active = asyncio.Event()
        self._loop_thread = threading.get_ident()
        self._beats = 0  # of the event loop
        self._beats_seen = 0
        self._looked_at = time.monotonic()
        self._silent_s = 0.0  # for how long looks saw no beat
        self._count_beats()

    def _count_beats(self) -> None:
        """Count, again and again, that the event loop goes on."""
        self._beats += 1
        self._loop.call_later(BEAT_INTERVAL_S, self._count_beats)

    def is_answering(self) -> bool:
        """See `ClusterWatcher`. A process that was stopped as a whole does not hang: its looks stood still, too."""
        beats, now, silent_s = self._beats, time.monotonic(), self._silent_s
        self._silent_s = 0.0 if beats != self._beats_seen else silent_s + min(now - self._looked_at, BEAT_INTERVAL_S)
        self._beats_seen, self._looked_at = beats, now
        if silent_s <= HANG_S < self._silent_s:
            log.error(
                "the event loop hangs; unless it goes on soon, another gateway takes over",
                seconds=round(self._silent_s, 1), where=_find_frames(self._loop_thread),
            )  # fmt: skip
        return self._silent_s <= HANG_S

    def note_loss(self, reason: str) -> None:
        self._lose(reason)

    def note_active(self) -> None:
        self._call_on_loop(self._is_active.set)

    def note_gateways(self, gateways: Sequence[ClusterGateway]) -> None:
        self._seats.note_gateways(gateways)
        self._call_on_loop(partial(self._seats.lives.note_living, gateways))
        self._call_on_loop(self._knows_others.set)
        self._call_on_loop(self._seats.look_soon)

    def count_agents(self) -> int:
        return self._seats.count_agents()

    def _call_on_loop(self, function: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the gateway has ended
            self._loop.call_soon_threadsafe(function)

    async def wait_until_known(self) -> None:
        """Wait until this gateway knows which other ones live."""
        await self._knows_others.wait()

    async def pass_duties_to(self, gateway: Gateway) -> None:
        """Let a gateway that has started take the duties as soon as it is the active one."""
        await self._is_active.wait()
        gateway.take_duties()


def _find_frames(thread: int) -> list[str]:
    """Return where a thread is, the innermost frame first."""
    frames = traceback.extract_stack(sys._current_frames().get(thread))
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames[-MAX_LOGGED_FRAMES:])]


def start_again(config: GatewayConfig, caller: ClusterCaller, reason: str) -> NoReturn:
    """Kill this gateway's agents, and replace the process by a new one that waits. This may run on any thread.

    If it is being stopped, it ends.
    """
    log.error("this gateway stops at once, and waits to take over again", why=reason)
    _end_agents(socket_path(config.gateway.data_dir))
    flush_streams()
    if caller.stop.is_set():
        os._exit(1)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **caller.environment})


def _end_agents(socket: Path) -> None:
    """Kill what is left of the agents of the gateway at this socket, with all that they started.

    Background jobs go on: they do not have the variable.
    """
    if killed := kill_tagged_processes(str(socket), SOCKET_VARIABLE):
        log.info("agents were killed", processes=killed)
