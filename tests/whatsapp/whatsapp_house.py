"""A double of WhatsApp's Cloud API, a channel that speaks with it, and an inbox that keeps what it hears."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from semel.channels.whatsapp.channel import WhatsAppChannel
from semel.channels.whatsapp.settings import WhatsAppSettings
from semel.gateway.ports import Op
from semel.testing.inbox import KeptInbox
from semel.testing.whatsapp import APP_SECRET, NUMBER_ID, TOKEN, VERIFY_TOKEN, WhatsAppDouble, serve

ANN, BOB = "16505551234", "4915112345678"
GROUP = "Y2FwaV9ncm91cDoxNzA1NTU1MDEzOToxMjAzNjM0MDQ2OTQyMzM4MjAZD"


class Clock:
    """A clock that stands until it is put forward. Times are seconds since the epoch."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


class WhatsAppHouse:
    """`settings` are the channel's. `clock` is that of the double and the channel."""

    def __init__(self, tmp_path: Path, double: WhatsAppDouble, url: str, clock: Clock, **settings: Any) -> None:
        self.tmp_path = tmp_path
        self.double = double
        self.clock = clock
        self.url = url
        self.more = {"pace": 0.0, "timeout": 5.0, "settle": 0.05, **settings}
        self.inbox = KeptInbox(tmp_path / "files")
        double.person(ANN, "Ann")
        double.person(BOB, "Bob")
        self.channel = self.fresh()
        self.task: asyncio.Task[None] | None = None
        self._n = 0

    def fresh(self, **settings: Any) -> WhatsAppChannel:
        """A channel that remembers nothing, as after a restart."""
        fields: dict[str, Any] = {
            "phone_number_id": NUMBER_ID, "token": TOKEN, "app_secret": APP_SECRET, "verify_token": VERIFY_TOKEN,
            "api": self.url, **self.more, **settings,
        }  # fmt: skip
        return WhatsAppChannel("whatsapp", WhatsAppSettings(**fields), clock=self.clock)

    def op(self, text: str = "", *, to: str = ANN, kind: Any = "post", **more: Any) -> Op:
        """A part with a key of its own."""
        self._n += 1
        return Op(more.pop("key", f"key-{self._n}"), kind, to, text, **more)

    def file(self, content: bytes, name: str) -> Path:
        path = self.tmp_path / f"stored-{name}"
        path.write_bytes(content)
        return path

    def asked(self, call: str = "messages") -> list[Any]:
        """The arguments of each call of this name."""
        return [row["arguments"] for row in self.double.requests if row["call"] == call]

    async def online(self) -> None:
        self.task = asyncio.create_task(self.channel.run(self.inbox))
        await self.inbox.wait_online(self.inbox.onlines + 1)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.task
            self.task = None

    async def deliver(self, *, together: bool = False) -> list[int]:
        """Let Meta post what waits. Return the statuses of the answers."""
        requests = self.double.take_requests(together=together)
        return [(await self.channel.receive(self.inbox, headers, body))[0] for headers, body in requests]

    async def tell(self, message: dict[str, Any], person: str = ANN) -> list[Any]:
        """Let a message of a person be posted, as it is given. Return the new events."""
        before = len(self.inbox.events)
        self.double.tell(person, message)
        assert await self.deliver() == [200]
        return self.inbox.events[before:]


async def until(holds: Callable[[], bool | Awaitable[bool]], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            outcome = holds()
            if outcome if isinstance(outcome, bool) else await outcome:
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def whatsapp(
    tmp_path: Path, double: WhatsAppDouble | None = None, **settings: Any
) -> AsyncIterator[WhatsAppHouse]:
    clock = Clock()
    double = double or WhatsAppDouble()
    double.now = clock
    async with serve(double) as url:
        house = WhatsAppHouse(tmp_path, double, url, clock, **settings)
        try:
            yield house
        finally:
            await house.stop()


__all__ = ["ANN", "BOB", "GROUP", "Clock", "WhatsAppDouble", "WhatsAppHouse", "until", "whatsapp"]
