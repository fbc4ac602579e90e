"""Typing indicators: while a turn runs, show the person who asked for it that the agent is working on an answer.

A call of the channel's `typing` is not a part: it is neither recorded nor retried, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from semel.gateway.clock import Clock
from semel.gateway.ports import Channel
from semel.ledger.turns.turn_events import TurnEvent
from semel.ledger.turns.turns import BegunTurn

TYPING_INTERVAL_S = 4.0
"""Seconds between two calls. Platforms show the indicator for at least five."""

_log = logging.getLogger("semel.typing")

Typist = Callable[[str], Awaitable[None]]


class Typing:
    """The typing indicators of all running turns. Call `begin` and `end` with each turn."""

    def __init__(self, channels: Mapping[str, Channel], clock: Clock, runs: Callable[[], bool] = lambda: True) -> None:
        """Connect the channels. `runs`: returns whether they run in this gateway."""
        self._channels = channels
        self._runs = runs
        self._clock = clock
        self._turns: dict[int, asyncio.Task[None]] = {}
        self._calls: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<Typing in {len(self._turns)} turns, {len(self._calls)} calls under way>"

    def begin(self, begun: BegunTurn, waits: Callable[[], bool]) -> None:
        """Start the indicator of a turn.

        It pauses while `waits()` is true, because the turn then waits for a person.
        """
        typist = self._find_typist(begun)
        if typist is not None and begun.home is not None:
            address = begun.home.partition(":")[2]
            work = self._type(typist, address, waits)
            self._turns[begun.turn] = asyncio.create_task(work, name=f"typing in turn {begun.turn}")

    def end(self, begun: BegunTurn) -> None:
        """Stop the indicator of a turn. Do not wait for a running call."""
        if (task := self._turns.pop(begun.turn, None)) is not None:
            task.cancel()

    def _find_typist(self, begun: BegunTurn) -> Typist | None:
        name = (begun.home or "").partition(":")[0]
        channel = self._channels.get(name)
        if channel is None or not self._runs() or not channel.caps.typing or not is_asked_by_person(begun.events, name):
            return None
        typist: Typist | None = getattr(channel, "typing", None)
        return typist

    async def _type(self, typist: Typist, address: str, waits: Callable[[], bool]) -> None:
        call: asyncio.Task[Any] | None = None
        try:
            while True:
                if not waits() and (call is None or call.done()):  # do not start a second call while one hangs
                    call = asyncio.create_task(_show_typing(typist, address))
                    self._calls.add(call)
                    call.add_done_callback(self._calls.discard)
                await self._clock.sleep(TYPING_INTERVAL_S)
                if call is not None:
                    call.cancel()
        finally:
            if call is not None:
                call.cancel()

    async def stop(self) -> None:
        """Cancel all indicators and calls."""
        tasks = [*self._turns.values(), *self._calls]
        self._turns.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=0.1)


def is_asked_by_person(events: Iterable[TurnEvent], channel: str) -> bool:
    """Return whether a person, and not a schedule or a program, asked for the turn through this channel."""
    return any(e.kind == "message" and e.source == f"channel:{channel}" and not e.data.get("automatic") for e in events)


async def _show_typing(typist: Typist, address: str) -> None:
    try:
        await typist(address)
    except Exception as error:
        _log.debug("typing could not be shown: %r", error)
