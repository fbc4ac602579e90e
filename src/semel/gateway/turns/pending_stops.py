"""Stops of turns that begin: a person or a newer message stopped them before their agent was prompted."""

from __future__ import annotations

from semel.ledger.turns.turns import BegunTurn, StopRequest


class PendingStops:
    """The stops that the next attempt in each session obeys instead of prompting its agent."""

    def __init__(self) -> None:
        self._by_people: dict[int, dict[int | None, StopRequest]] = {}  # session -> {root: stop}; None: the next
        self._by_messages: dict[int, dict[int, StopRequest]] = {}  # the same, if a newer message interrupted it

    def __repr__(self) -> str:
        count = sum(len(stops) for kept in (self._by_people, self._by_messages) for stops in kept.values())
        return f"<PendingStops of {count} turns>"

    def stop_turn(self, session: int, by: StopRequest, root: int | None = None) -> None:
        """Stop the session's turn for a person. `root`: a turn of this root; None: the next one, whichever it is.

        A late stop of an earlier turn stands beside that of the one that begins, and does not replace it.
        """
        self._by_people.setdefault(session, {})[root] = by

    def overtake_turn(self, session: int, by: StopRequest, root: int) -> None:
        """Stop the session's turn of this root for a newer message."""
        self._by_messages.setdefault(session, {})[root] = by

    def note_begin(self, begun: BegunTurn) -> None:
        """Let the stop of the next turn be one of this turn, so that none behind it obeys the stop."""
        stops = self._by_people.get(begun.session, {})
        if None in stops:
            stops[begun.root] = stops.pop(None)

    def find_stop(self, begun: BegunTurn) -> StopRequest | None:
        """Return the stop that this turn has to obey; None if there is none."""
        stops = self._by_people.get(begun.session, {})
        return stops.get(begun.root) or stops.get(None) or self._find_overtaking(begun)

    def take_stop(self, begun: BegunTurn) -> StopRequest | None:
        """Return the stop that this turn has to obey, and forget those of people."""
        by = self.find_stop(begun)
        self._by_people.pop(begun.session, None)
        return by

    def note_end(self, begun: BegunTurn) -> None:
        """Forget what stopped a turn that has ended."""
        self._by_messages.get(begun.session, {}).pop(begun.root, None)

    def forget_session(self, session: int) -> None:
        """Forget the session: no turn begins there now."""
        self._by_people.pop(session, None)
        self._by_messages.pop(session, None)

    def _find_overtaking(self, begun: BegunTurn) -> StopRequest | None:
        return self._by_messages.get(begun.session, {}).get(begun.root)
