"""What a face is told when it asks for something that cannot be done. The message says what to do."""

from __future__ import annotations


class GatewayError(Exception):
    """The gateway could not do what was asked."""


class NoSuchSession(GatewayError):
    """There is no session of that key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no session {key!r}; `semel sessions` lists them, and a first message makes one")
        self.key = key


class NotFound(GatewayError):
    """There is no such part, item, file or channel."""


class BadRequest(GatewayError):
    """The input is not what it must be; the message names the field and the rule."""


class Conflict(GatewayError):
    """What was asked no longer fits the state it is in."""


class Busy(GatewayError):
    """The gateway is stopping, or the ledger cannot take it now; nothing was accepted."""
