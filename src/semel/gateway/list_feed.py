"""`ListFeed` numbers the changes of all sessions, for those who watch the list of sessions (Law 8).

Each commit that changes a session gets a number here, in memory: no row of the ledger counts the changes of all
sessions, because every commit would have to wait for that row. Of each session, only the number of its last change is
kept. So a watcher has no queue: it asks which sessions changed after the number that it has, and reads their rows. A
slow one finds fewer and newer rows, and costs nothing meanwhile.

The numbers begin at random. A watcher that comes back with a number of another gateway, or of this one before its
restart, is recognised by that, and gets a snapshot.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict

from semel.gateway.record import Hub

COUNTER_BITS = 22  # of a rev, which fits into the 53 bits of a number in JavaScript
MAX_CHANGED = 1_000  # changed sessions up to which a watcher gets the changes, and not a snapshot
MAX_KEPT = 10_000  # sessions whose last change is remembered


class ListFeed:
    """The numbers of the sessions' last changes. All methods run on the event loop."""

    def __init__(self, hub: Hub) -> None:
        self._numbers: OrderedDict[int, int] = OrderedDict()  # session id -> rev of its last change, oldest first
        self._watchers: set[asyncio.Event] = set()
        self._begin()
        hub.follow(self.note_changed)
        hub.follow_gaps(self.note_gap)

    def __repr__(self) -> str:
        return f"<ListFeed rev={self.rev} {len(self._numbers)} sessions, {len(self._watchers)} watchers>"

    def _begin(self) -> None:
        """Begin with other numbers, so that every earlier one is unknown."""
        self.rev = self._floor = (1 + secrets.randbelow((1 << 53 - COUNTER_BITS) - 1)) << COUNTER_BITS
        self._numbers.clear()

    def note_changed(self, sessions: set[int]) -> None:
        """Number a change of these sessions."""
        if not sessions:
            return
        if self.rev + 1 >= (self.rev >> COUNTER_BITS) + 1 << COUNTER_BITS:
            self._begin()
        self.rev += 1
        for session in sessions:
            self._numbers[session] = self.rev
            self._numbers.move_to_end(session)
        while len(self._numbers) > MAX_KEPT:
            _, self._floor = self._numbers.popitem(last=False)
        self._tell()

    def note_gap(self) -> None:
        """Forget all: another gateway may have changed any session."""
        self._begin()
        self._tell()

    def list_changed(self, after: int) -> list[int] | None:
        """Return the sessions that changed after a rev, oldest change first; None if a snapshot is needed instead."""
        if not self._floor <= after <= self.rev:
            return None
        changed: list[int] = []
        for session, number in reversed(self._numbers.items()):
            if number <= after:
                break
            changed.append(session)
            if len(changed) > MAX_CHANGED:
                return None
        return changed[::-1]

    def join(self) -> asyncio.Event:
        """Return an event that is set at each change, until `leave`."""
        event = asyncio.Event()
        self._watchers.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        self._watchers.discard(event)

    @property
    def count(self) -> int:
        """The number of those who watch."""
        return len(self._watchers)

    def _tell(self) -> None:
        for event in self._watchers:
            event.set()
