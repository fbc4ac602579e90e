"""A proxy before one port of a platform that does what networks do: it loses answers, refuses, hangs, says 429.

Faults strike what says something to people, and leave the rest alone: each such attempt is counted in `said`.
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
from typing import ClassVar

PIECE = 65536
LINGER = 0.5
"""Seconds that a platform which answers nothing by itself gets to take what was said, before its connection breaks."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Strike(enum.StrEnum):
    """What happens to one attempt to say something."""

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
class Fault:
    """What one attempt meets. All but `strike` belongs to Strike.STATUS.

    `seconds`: of its Retry-After header, 0 for none. `redirects`: its Location leads back here. `taken`: the
    platform has the message all the same, and its own answer is withheld.
    """

    strike: Strike
    status: int = 0
    seconds: int = 0
    body: bytes = b""
    taken: bool = False
    redirects: bool = False

    def __str__(self) -> str:
        if self.strike is not Strike.STATUS:
            return self.strike.value
        parts = [
            f"HTTP {self.status}",
            f"with the body {self.body[:60]!r}" if self.body else "without a body",
            f"and Retry-After: {self.seconds}" if self.seconds else "",
            "after the platform took it" if self.taken else "before the platform had it",
        ]
        return " ".join(filter(None, parts))

    @property
    def reaches_platform(self) -> bool:
        """Whether the platform has the message afterwards."""
        return self.taken or self.strike in (Strike.DROP, Strike.CUT_HEAD, Strike.CUT_BODY, Strike.HANG_AFTER)


class Proxy(abc.ABC):
    """`async with` listens; `port` is where. `refuse` and `accept` are the network's going and coming back."""

    kind: ClassVar[str]

    def __init__(self, upstream: int) -> None:
        """`upstream`: the platform's port on 127.0.0.1."""
        self.upstream = upstream
        self.port = 0
        self.said = 0
        self.dropped = 0
        self.followed = 0  # requests to where a redirect of ours led
        self.drops = 0.0  # the share of answers that are lost, where no fault is planned
        self.losses: tuple[Fault, ...] = (Fault(Strike.DROP),)  # how; each of them reaches the platform
        self.dice = random.Random(0)
        self.plan: deque[Fault] = deque()  # for the next attempts, in order
        self.on_said: Callable[[], None] = lambda: None
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
        """Listen (again, on the same port)."""
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", self.port, limit=2**24)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Every connection breaks, and new ones are refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()

    async def cut(self) -> None:
        """Every connection breaks; new ones are welcome."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)

        def done(_: object) -> None:  # also where it was cancelled before it began
            self._tasks.discard(task)
            writer.transport.abort()

        task.add_done_callback(done)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.serve(reader, writer)
        except (OSError, EOFError):
            pass

    def meets(self) -> Fault | None:
        """Something is said: counted, and what becomes of it."""
        self.said += 1
        self.on_said()
        if self.plan:
            return self.plan.popleft()
        if self.dice.random() < self.drops:
            return self.dice.choice(self.losses)
        return None

    @contextlib.asynccontextmanager
    async def platform(self) -> AsyncIterator[Streams]:
        """A connection to the real port. Raises OSError."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream, limit=2**24)
        try:
            yield reader, writer
        finally:
            writer.close()

    @abc.abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the channel."""


async def gone(reader: asyncio.StreamReader) -> None:
    """Until the other side hung up."""
    with contextlib.suppress(OSError):
        while await reader.read(PIECE):
            pass
