"""While a turn runs, the person who asked sees that an answer is on its way. It is no part: nothing waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from semel.gateway.clock import Clock
from semel.gateway.ports import Channel
from semel.ledger.turns.turns import Begun, Bound

EVERY = 4.0
"""Seconds between two calls: platforms show it for five or more."""

_log = logging.getLogger("semel.typing")

Typist = Callable[[str], Awaitable[None]]


class Typing:
    """`begin` with each turn, `end` with it."""

    def __init__(self, channels: Mapping[str, Channel], clock: Clock) -> None:
        self._channels = channels
        self._clock = clock
        self._turns: dict[int, asyncio.Task[None]] = {}
        self._calls: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<Typing in {len(self._turns)} turns, {len(self._calls)} calls under way>"

    def begin(self, begun: Begun, waits: Callable[[], bool]) -> None:
        """A turn begins to be worked on. `waits`: whether it stands still, until a person allows something."""
        typist = self._typist(begun)
        if typist is not None and begun.home is not None:
            address = begun.home.partition(":")[2]
            work = self._type(typist, address, waits)
            self._turns[begun.turn] = asyncio.create_task(work, name=f"typing in turn {begun.turn}")

    def end(self, begun: Begun) -> None:
        """It is over. Whatever is still being told is left behind."""
        if (task := self._turns.pop(begun.turn, None)) is not None:
            task.cancel()

    def _typist(self, begun: Begun) -> Typist | None:
        name = (begun.home or "").partition(":")[0]
        channel = self._channels.get(name)
        if channel is None or not channel.caps.typing or not asked(begun.events, name):
            return None
        typist: Typist | None = getattr(channel, "typing", None)
        return typist

    async def _type(self, typist: Typist, address: str, waits: Callable[[], bool]) -> None:
        call: asyncio.Task[Any] | None = None
        try:
            while True:
                if not waits() and (call is None or call.done()):  # one that hangs is not joined by others
                    call = asyncio.create_task(_tell(typist, address))
                    self._calls.add(call)
                    call.add_done_callback(self._calls.discard)
                await self._clock.sleep(EVERY)
                if call is not None:
                    call.cancel()
        finally:
            if call is not None:
                call.cancel()

    async def stop(self) -> None:
        """The gateway stops."""
        left = [*self._turns.values(), *self._calls]
        self._turns.clear()
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=0.1)


def asked(events: Iterable[Bound], channel: str) -> bool:
    """Whether a person asked by this channel: a turn of a schedule or a program shows nobody that it types."""
    return any(e.kind == "message" and e.source == f"channel:{channel}" and not e.data.get("automatic") for e in events)


async def _tell(typist: Typist, address: str) -> None:
    try:
        await typist(address)
    except Exception as fault:
        _log.debug("typing could not be shown: %r", fault)
