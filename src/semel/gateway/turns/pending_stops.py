"""Stops of turns that begin: a person or a newer message stopped them before their agent was prompted."""

from __future__ import annotations

from semel.ledger.turns.turns import BegunTurn, StopRequest


class PendingStops:
    """The stops that the next attempt in each session obeys instead of prompting its agent."""

    def __init__(self) -> None:
        self._by_people: dict[int, tuple[int | None, StopRequest]] = {}  # session -> (root, stop); None: of any root
        self._by_messages: dict[int, tuple[int, StopRequest]] = {}  # the same, if a newer message interrupted it

    def __repr__(self) -> str:
        return f"<PendingStops of {len(self._by_people) + len(self._by_messages)} turns>"

    def stop_turn(self, session: int, by: StopRequest, root: int | None = None) -> None:
        """Stop the session's turn for a person. `root`: only a turn of this root."""
        self._by_people[session] = root, by

    def overtake_turn(self, session: int, by: StopRequest, root: int) -> None:
        """Stop the session's turn of this root for a newer message."""
        self._by_messages[session] = root, by

    def find_stop(self, begun: BegunTurn) -> StopRequest | None:
        """Return the stop that this turn has to obey; None if there is none."""
        root, by = self._by_people.get(begun.session, (None, None))
        return by if by is not None and root in (None, begun.root) else self._find_overtaking(begun)

    def take_stop(self, begun: BegunTurn) -> StopRequest | None:
        """Return the stop that this turn has to obey, and forget a person's."""
        by = self.find_stop(begun)
        self._by_people.pop(begun.session, None)
        return by

    def note_end(self, begun: BegunTurn) -> None:
        """Forget what stopped a turn that has ended."""
        if self._find_overtaking(begun) is not None:
            del self._by_messages[begun.session]

    def forget_session(self, session: int) -> None:
        """Forget the session: no turn begins there now."""
        self._by_people.pop(session, None)
        self._by_messages.pop(session, None)

    def _find_overtaking(self, begun: BegunTurn) -> StopRequest | None:
        root, by = self._by_messages.get(begun.session, (None, None))
        return by if root == begun.root else None
