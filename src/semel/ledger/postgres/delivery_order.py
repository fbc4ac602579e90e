"""Deliver the results of transactions on one session in the order of their commits.

Watchers are sent the changes of a session in the order of its revs (Law 8). Workers commit at the same time; of two
transactions that held the same session, the second got the lock after the first had committed. So a ticket that is
drawn while the lock is held is in the order of the commits. A result is delivered when no earlier ticket of its
sessions is out.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection


class DeliveryOrder:
    """The tickets of the transactions that are about to commit, or whose results are not delivered yet."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._out: dict[int, frozenset[int]] = {}

    def __repr__(self) -> str:
        return f"<DeliveryOrder {len(self._out)} results are not delivered>"

    def draw(self, sessions: Collection[int]) -> int:
        """Return a ticket. Call this while the transaction holds its sessions, before COMMIT."""
        with self._changed:
            ticket = next(self._numbers)
            self._out[ticket] = frozenset(sessions)
            return ticket

    def wait_turn(self, ticket: int) -> None:
        """Wait until the results of all earlier transactions on the same sessions are delivered."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_behind(ticket))

    def give_back(self, ticket: int) -> None:
        """The result is delivered, or the transaction did not happen."""
        with self._changed:
            del self._out[ticket]
            self._changed.notify_all()

    def _is_behind(self, ticket: int) -> bool:
        sessions = self._out[ticket]
        return any(other < ticket and not sessions.isdisjoint(held) for other, held in self._out.items())
