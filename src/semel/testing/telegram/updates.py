"""The queue of updates. An update waits until a poll's offset is above its id, at most 24 hours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from semel.testing.telegram.model import ApiError
from semel.text.json_types import Json

UPDATE_LIFE_S = 24 * 3600
"""How long an update waits at most."""
MAX_POLL_S = 50
"""The maximum length of a long poll."""
MAX_UPDATES = 100
OPT_IN_KINDS = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
"""Kinds that a bot gets only if it names them in `allowed_updates`."""
CONFLICT_ERROR = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
WEBHOOK_ERROR = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)


class UpdateQueue:
    """The updates not confirmed yet. `now`: returns seconds since the epoch. `first`: the id of the first update."""

    def __init__(self, now: Callable[[], float], first: int) -> None:
        self.next = first  # the next update's id
        self.allowed: list[str] = []  # `allowed_updates`; [] is Telegram's default: all kinds except OPT_IN_KINDS
        self.webhook = ""
        self.conflicts = 0
        self._now = now
        self._waiting: list[tuple[int, float, Json]] = []
        self._changed = asyncio.Event()
        self._poll: asyncio.Event | None = None  # of the waiting poll: set by the next poll, to end the waiting one

    def __repr__(self) -> str:
        return f"<UpdateQueue {len(self._waiting)} updates, the next is {self.next}>"

    def push(self, kind: str, content: Json) -> int | None:
        """Queue an update. Returns its id, or None if the bot did not ask for this kind."""
        if kind not in self.allowed if self.allowed else kind in OPT_IN_KINDS:
            return None
        id, self.next = self.next, self.next + 1
        self._waiting.append((id, self._now(), {"update_id": id, kind: content}))
        self.wake()
        return id

    def pending(self) -> list[Json]:
        """Return the updates that a poll would get now."""
        self._waiting = [waiting for waiting in self._waiting if waiting[1] > self._now() - UPDATE_LIFE_S]
        return [update for _, _, update in self._waiting]

    def wake(self) -> None:
        """Make a waiting poll check the queue again."""
        self._changed.set()

    async def poll(self, offset: int, limit: int, timeout: float) -> list[Json]:
        """Answer getUpdates: wait up to `timeout` seconds for updates from `offset` on, and return at most `limit`.

        Raises ApiError 409 if a webhook is set, or if a later poll ended this one.
        """
        if self.webhook:
            raise ApiError(409, WEBHOOK_ERROR)
        self._confirm(offset)
        if not self.pending() and timeout > 0:
            await self._wait(min(timeout, MAX_POLL_S))
        return self.pending()[: max(1, min(limit, MAX_UPDATES))]

    def _confirm(self, offset: int) -> None:
        """Remove the updates with ids below the offset; a negative offset keeps that many of the newest.

        An offset above the next id confirms nothing: after an idle week, ids may start over lower.
        """
        self.pending()
        if offset < 0:
            self._waiting = self._waiting[offset:]
        elif offset <= self.next:
            self._waiting = [waiting for waiting in self._waiting if waiting[0] >= offset]

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
            raise ApiError(409, CONFLICT_ERROR)
