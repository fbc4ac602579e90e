"""Remember the topics of recent messages. Telegram reports a reaction without its topic, only with its message."""

from __future__ import annotations

from dataclasses import replace

from semel.gateway.ports import Incoming

MAX_REMEMBERED_MESSAGES = 10_000
"""Number of newest messages in topics that are remembered; a restart forgets them."""


class Topics:
    """The addresses of messages in topics, by message id."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Topics of {len(self._known)} messages>"

    def learn(self, message: str, address: str) -> None:
        """Remember a message's address if it is in a topic."""
        if ":topic-" in address:
            self._known.pop(message, None)
            self._known[message] = address
            if len(self._known) > MAX_REMEMBERED_MESSAGES:
                del self._known[next(iter(self._known))]

    def placed(self, what: Incoming) -> Incoming:
        """Give a reaction the address of its message, if known. Other events are remembered and returned unchanged."""
        if what.kind != "reaction":
            self.learn(what.key, what.address)
            return what
        return replace(what, address=self._known.get(what.of or "", what.address))
