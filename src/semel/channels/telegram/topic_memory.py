"""In which topic the last messages were: a reaction is told with its message alone, and belongs to that topic."""

from __future__ import annotations

from dataclasses import replace

from semel.gateway.ports import Incoming

MOST = 10_000
"""Messages in topics that are remembered, the newest; none beyond a restart."""


class Topics:
    """Addresses of messages in topics, by the message's id."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Topics of {len(self._known)} messages>"

    def learn(self, message: str, address: str) -> None:
        """Where a message is, if that is a topic."""
        if ":topic-" in address:
            self._known.pop(message, None)
            self._known[message] = address
            if len(self._known) > MOST:
                del self._known[next(iter(self._known))]

    def placed(self, what: Incoming) -> Incoming:
        """A reaction at the address of its message, as far as that is known."""
        if what.kind != "reaction":
            self.learn(what.key, what.address)
            return what
        return replace(what, address=self._known.get(what.of or "", what.address))
