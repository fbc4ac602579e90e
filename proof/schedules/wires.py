"""What lies between processes: pipes that keep their order, and requests whose answer may never come."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from proof.schedules.loop import SeededLoop

AT_ONCE = 0.4  # the share of messages that take no time


class Gone(Exception):
    """The process at the other end is gone, or nobody is there."""


class Outside:
    """The world beside the gateway: what runs there belongs to no life. `chance` is the network's."""

    def __init__(self, loop: SeededLoop, seed: int) -> None:
        self.loop = loop
        self.chance = random.Random(f"wires {seed}")
        self._context = contextvars.copy_context()

    def run(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """A task of the world's own."""
        return self.loop.create_task(work, name=name, context=self._context.copy())

    def soon(self, call: Callable[..., Any], *args: Any) -> None:
        self.loop.call_soon(call, *args, context=self._context)

    def later(self, seconds: float, call: Callable[..., Any], *args: Any) -> None:
        self.loop.call_later(seconds, call, *args, context=self._context)

    def lag(self, most: float = 0.2) -> float:
        """How long a message is under way: often no time at all, so that much happens at once; seldom `most`."""
        die = self.chance.random()
        return 0.0 if die < AT_ONCE else most * ((die - AT_ONCE) / (1 - AT_ONCE)) ** 3


class Pipe:
    """What one end puts in comes out at the other end in the same order, each a moment later."""

    def __init__(self, outside: Outside, take: Callable[[Any], Any]) -> None:
        self.outside = outside
        self.take = take
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)
        self.outside.soon(self._out)

    def _out(self) -> None:
        self.take(self._items.popleft())
