"""A proxy before one port of a platform that causes network faults: lost answers, refused connections, silence, 429.

`Proxy` is the common base. `network.HttpProxy` is for platforms that speak HTTP, `TcpProxy` for all others.
Faults strike only attempts to send a message to people. Such attempts are counted in `said`. A `Disturbance` strikes
every answer while it lasts.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import enum
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from semel.testing.conformance.rig import TcpFront
from semel.testing.servers import close_server

CHUNK_BYTES = 65536
CUT_ANSWER_BYTES = 2
"""How many bytes arrive of an answer that breaks off."""
ANSWER_GRACE_S = 0.5
"""How long to wait for the platform's answer, which shows that it took a message, before the connection breaks."""

StreamPair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NetworkFaultKind(enum.StrEnum):
    """What happens to one attempt to send a message ("it")."""

    DROP = "the platform takes it, and its answer is lost"
    LOSE = "the connection breaks, and the platform never has it"
    CUT_HEAD = "the platform takes it, and its answer breaks off after some bytes"
    CUT_BODY = "the platform takes it, and its answer breaks off in the body"
    HANG = "nothing comes back, ever; the platform never has it"
    HANG_AFTER = "nothing comes back, ever, though the platform takes it"
    STATUS = "an HTTP answer that is not the platform's"
    NOT_NOW = "the platform answers that it does not take it now"
    NO = "the platform refuses it for good"


@dataclass(frozen=True)
class NetworkFault:
    """A fault of one attempt to send.

    `strike`: its kind. The other fields describe the HTTP answer of the kind STATUS: `seconds`: the Retry-After header
    (0: none). `taken`: whether the platform gets the message and its own answer is dropped. `redirects`: whether the
    Location header leads back to the proxy.
    """

    strike: NetworkFaultKind
    status: int = 0
    seconds: int = 0
    body: bytes = b""
    taken: bool = False
    redirects: bool = False

    def __str__(self) -> str:
        if self.strike is not NetworkFaultKind.STATUS:
            return self.strike.value
        when = "after the platform took it" if self.taken else "before the platform had it"
        return f"{self.describe_answer()} {when}"

    def describe_answer(self) -> str:
        """Return what the channel gets as its answer, whatever it asked for."""
        match self.strike:
            case NetworkFaultKind.STATUS:
                body = f"with the body {self.body[:60]!r}" if self.body else "without a body"
                seconds = f" and Retry-After: {self.seconds}" if self.seconds else ""
                return f"HTTP {self.status} {body}{seconds}"
            case NetworkFaultKind.CUT_HEAD | NetworkFaultKind.CUT_BODY:
                return "an answer that breaks off"
            case NetworkFaultKind.HANG:
                return "no answer, and the connection stays open"
            case _:
                return "no answer, and the connection breaks"

    @property
    def reaches_platform(self) -> bool:
        """Whether the platform gets the message."""
        return self.taken or self.strike in (
            NetworkFaultKind.DROP,
            NetworkFaultKind.CUT_HEAD,
            NetworkFaultKind.CUT_BODY,
            NetworkFaultKind.HANG_AFTER,
        )


class Disturbance:
    """A fault of every answer, on all ports that share it, after the first `spared` answers."""

    def __init__(self, fault: NetworkFault, spared: int) -> None:
        self._fault = fault
        self._spared = spared

    def next_fault(self) -> NetworkFault | None:
        """Count one answer. Returns its fault, or None if it is spared."""
        self._spared -= 1
        return self._fault if self._spared < 0 else None


class Proxy(abc.ABC):
    """A proxy on 127.0.0.1. It listens at `port` within `async with`; `refuse` begins an outage, `accept` ends it.

    `said`: the number of attempts to send so far. `dropped`: the number of answers that were lost.
    """

    def __init__(self, upstream: int) -> None:
        """`upstream`: the platform's port on 127.0.0.1."""
        self.upstream = upstream
        self.port = 0
        self.said = 0
        self.dropped = 0
        self.followed = 0  # requests to the target of one of our redirects
        self.drops = 0.0  # the probability that an answer is lost if no fault is planned
        self.losses: tuple[NetworkFault, ...] = (
            NetworkFault(NetworkFaultKind.DROP),
        )  # the ways in which answers are lost; the platform gets the message in each
        self.dice = random.Random(0)
        self.plan: deque[NetworkFault] = deque()  # the faults of the next attempts, in order
        self.answers = 0  # answers of the platform, or pieces of them, that came or were replaced
        self.disturbance: Disturbance | None = None
        self.on_said: Callable[[], None] = lambda: None  # called after each increment of `said`
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.port} to {self.upstream}, {self.said} said, {self.dropped} dropped>"

    async def __aenter__(self) -> Proxy:
        await self.accept()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.refuse()

    async def accept(self) -> None:
        """Begin to listen: at a free port the first time, and at the same port after an outage."""
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", self.port, limit=2**24)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Break every connection and refuse new ones."""
        if self._server is not None:
            await close_server(self._server)
            self._server = None
        await self.break_connections()

    async def break_connections(self) -> None:
        """Break every connection; new ones are still accepted."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)

        def done(_: object) -> None:  # also runs if the task was cancelled before it began
            self._tasks.discard(task)
            writer.transport.abort()

        task.add_done_callback(done)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.serve(reader, writer)
        except (OSError, EOFError):
            pass

    def next_fault(self) -> NetworkFault | None:
        """Count one attempt to send. Returns its fault, or None if it has none."""
        self.said += 1
        self.on_said()
        if self.plan:
            return self.plan.popleft()
        if self.dice.random() < self.drops:
            return self.dice.choice(self.losses)
        return None

    def next_disturbance(self) -> NetworkFault | None:
        """Count one answer. Returns the fault that disturbs it, or None."""
        self.answers += 1
        return self.disturbance.next_fault() if self.disturbance is not None else None

    @contextlib.asynccontextmanager
    async def platform(self) -> AsyncIterator[StreamPair]:
        """Connect to the platform's port. Raises OSError."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream, limit=2**24)
        try:
            yield reader, writer
        finally:
            writer.close()

    @abc.abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection from the channel until it ends."""


async def wait_until_closed(reader: asyncio.StreamReader) -> None:
    """Wait until the other side has closed the connection."""
    with contextlib.suppress(OSError):
        while await reader.read(CHUNK_BYTES):
            pass


class TcpProxy(Proxy):
    def __init__(self, front: TcpFront) -> None:
        super().__init__(front.port)
        self.count = front.count
        self.refusals = {NetworkFaultKind.NOT_NOW: front.not_now, NetworkFaultKind.NO: front.no}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self.platform() as platform:
            await _TcpRelay(self, (reader, writer), platform).run()


class _TcpRelay:
    """Relays between one connection from the channel and the proxy's own connection to the platform."""

    def __init__(self, proxy: TcpProxy, channel: StreamPair, platform: StreamPair) -> None:
        self.proxy = proxy
        self.reader, self.writer = channel
        self.platform, self.to_platform = platform
        self.strike: NetworkFaultKind | None = None
        self.answered = asyncio.Event()  # set when the platform sends bytes after the fault struck
        self._sent = bytearray()
        self._said = 0

    async def run(self) -> None:
        back = asyncio.create_task(self._relay_to_channel())
        try:
            await self._relay_to_platform()
            match self.strike:
                case None:
                    self.to_platform.write_eof()
                    await back
                case NetworkFaultKind.DROP:
                    self.proxy.dropped += 1
                    await self._wait_for_platform()
                case NetworkFaultKind.CUT_HEAD:
                    await self._wait_for_platform()
                    self.writer.write_eof()
                    await wait_until_closed(self.reader)
                case NetworkFaultKind.LOSE:
                    pass
                case _:
                    await wait_until_closed(self.reader)
        finally:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)

    async def _relay_to_platform(self) -> None:
        """Pass on what the channel sends, until it closes the connection or a fault strikes."""
        while piece := await self.reader.read(CHUNK_BYTES):
            self._sent += piece
            said_count = self.proxy.count(bytes(self._sent))
            for _ in range(said_count - self._said):
                fault = self.proxy.next_fault()
                self.strike = fault.strike if fault and self.strike is None else self.strike
            self._said = said_count
            if self.strike is None or NetworkFault(self.strike).reaches_platform:
                self.to_platform.write(piece)
                await self.to_platform.drain()
            if self.strike in self.proxy.refusals:
                if await self._refused():
                    return
            elif self.strike is not None:
                return

    async def _refused(self) -> bool:
        """Answer with the platform's refusal. Returns False if that needs more bytes from the channel first."""
        answer = self.proxy.refusals[self.strike] if self.strike is not None else None
        refusal = answer(bytes(self._sent)) if answer is not None else b""
        self.writer.write(refusal)
        await self.writer.drain()
        return bool(refusal)

    async def _relay_to_channel(self) -> None:
        """Pass on what the platform sends; after a fault struck, only its first bytes or nothing."""
        while piece := await self.platform.read(CHUNK_BYTES):
            if self.strike is None:
                fault = self.proxy.next_disturbance()
                if fault is None:
                    self.writer.write(piece)
                    await self.writer.drain()
                elif fault.strike is not NetworkFaultKind.HANG:
                    if fault.strike is NetworkFaultKind.CUT_HEAD:
                        self.writer.write(piece[:CUT_ANSWER_BYTES])
                        await self.writer.drain()
                    self.writer.close()
                    return
                continue
            if self.strike is NetworkFaultKind.CUT_HEAD and not self.answered.is_set():
                self.writer.write(piece[:CUT_ANSWER_BYTES])
                await self.writer.drain()
            self.answered.set()
        if self.strike is None:
            self.writer.close()

    async def _wait_for_platform(self) -> None:
        """Wait until the platform has handled the message: until it answers, or for ANSWER_GRACE_S."""
        try:
            async with asyncio.timeout(ANSWER_GRACE_S):
                await self.answered.wait()
        except TimeoutError:
            pass
