"""The queue of updates: kept until a poll's offset is beyond them, 24 hours at most; one poll at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from semel.testing.telegram.errors import ApiError

Json = dict[str, Any]

KEPT = 24 * 3600
"""Seconds for which an update waits."""
LONGEST = 50
"""Seconds that a long poll lasts at most."""
MOST = 100
UNASKED = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
"""Kinds that are sent only to who asks for them by name."""
CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
WEBHOOK = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"


class Queue:
    """Updates that were not confirmed yet. `now` gives seconds since the epoch."""

    def __init__(self, now: Callable[[], float], first: int) -> None:
        self.next = first  # the next update's id
        self.allowed: list[str] = []  # [] is Telegram's default: all kinds but UNASKED
        self.webhook = ""
        self.conflicts = 0
        self._now = now
        self._waiting: list[tuple[int, float, Json]] = []
        self._changed = asyncio.Event()
        self._poll: asyncio.Event | None = None  # set: the poll that waits is ended by another

    def __repr__(self) -> str:
        return f"<Queue {len(self._waiting)} updates, the next is {self.next}>"

    def push(self, kind: str, content: Json) -> int | None:
        """Tell of something; its id, or None where the bot did not ask for this kind."""
        if kind not in self.allowed if self.allowed else kind in UNASKED:
            return None
        id, self.next = self.next, self.next + 1
        self._waiting.append((id, self._now(), {"update_id": id, kind: content}))
        self.wake()
        return id

    def pending(self) -> list[Json]:
        """What would be told now."""
        self._waiting = [each for each in self._waiting if each[1] > self._now() - KEPT]
        return [update for _, _, update in self._waiting]

    def wake(self) -> None:
        """Have a waiting poll look again."""
        self._changed.set()

    async def poll(self, offset: int, limit: int, timeout: float) -> list[Json]:
        """getUpdates. Raises ApiError 409 where a webhook is set, and in a poll that another one ended."""
        if self.webhook:
            raise ApiError(409, WEBHOOK)
        self._confirm(offset)
        if not self.pending() and timeout > 0:
            await self._wait(min(timeout, LONGEST))
        return self.pending()[: max(1, min(limit, MOST))]

    def _confirm(self, offset: int) -> None:
        """Forget what is below the offset; a negative one counts from the end.

        An offset that lies in the future confirms nothing: ids may begin anew, lower, after an idle week.
        """
        self.pending()
        if offset < 0:
            self._waiting = self._waiting[offset:]
        elif offset <= self.next:
            self._waiting = [each for each in self._waiting if each[0] >= offset]

    async def _wait(self, seconds: float) -> None:
        if self._poll is not None:
            self._poll.set()
            self._changed.set()
            await asyncio.sleep(0)
        mine = self._poll = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                while not self.pending() and not mine.is_set():
                    self._changed = asyncio.Event() if self._changed.is_set() else self._changed
                    await self._changed.wait()
        except TimeoutError:
            pass
        finally:
            if self._poll is mine:
                self._poll = None
        if mine.is_set():
            self.conflicts += 1
            raise ApiError(409, CONFLICT)
