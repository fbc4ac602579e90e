"""When to notify a chat of what is, or may be, missing there: once the channel works again (Laws 7, 12).

The channel works if something arrives in the chat, or if it is online some time after the answer was held or the
request rejected. A notice that is sent during the outage would be held, too, and each chat gets only one.

A chat that rejected such a notice, too, is notified again only after something arrived there, so that one that blocks
Semel's account does not get notice after notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

NOTIFY_AFTER_MS = 30_000
"""How long after something was held or rejected its chat is notified, if nothing arrives there before."""


class HeldChats:
    """The destinations ("channel:address") where something is held or was rejected, and when each is notified, in ms.

    `is_online`: whether a channel is connected to its platform, by the channel's name.
    """

    def __init__(self, is_online: Callable[[str], bool] = lambda channel: True) -> None:
        self.is_online = is_online
        self._due: dict[str, int] = {}
        self._arrived: set[str] = set()  # of these, those at which something arrived since
        self._waiting: set[str] = set()  # notified once something arrives there

    def __repr__(self) -> str:
        return f"<HeldChats {len(self._due)} to notify, {len(self._waiting)} once something arrives>"

    @property
    def next_due(self) -> int | None:
        """When the next one is notified, in ms; None if there is none."""
        return min(self._due.values(), default=None)

    def add(self, dests: Iterable[str], now: int) -> None:
        """Note that something is held or was rejected at these destinations now (ms). They may know of it already."""
        for dest in dests:
            self._due.setdefault(dest, now + NOTIFY_AFTER_MS)

    def wait_for_arrival(self, dest: str) -> None:
        """Note that `dest` is to be notified once something arrives there."""
        self._waiting.add(dest)

    def note_arrival(self, dest: str, now: int) -> None:
        """Note that something arrived at `dest` now (ms): it is notified at once of what is missing there."""
        if dest in self._due or dest in self._waiting:
            self._waiting.discard(dest)
            self._arrived.add(dest)
            self._due[dest] = now

    def take_due(self, now: int) -> dict[str, bool]:
        """Return the destinations to notify now (ms), and forget them. Those of a channel that is away wait on.

        Each comes with whether something arrived there since it was noted.
        """
        due = [dest for dest, at in self._due.items() if at <= now]
        for dest in due:
            if self.is_online(dest.partition(":")[0]):
                del self._due[dest]
            else:
                self._due[dest] = now + NOTIFY_AFTER_MS
        ready = {dest: dest in self._arrived for dest in due if dest not in self._due}
        self._arrived -= ready.keys()
        return ready
