"""Errors that the gateway's API raises for requests it cannot carry out. Each message says what to do about it."""

from __future__ import annotations


class GatewayError(Exception):
    """The gateway could not carry out the request. The base class of the errors below."""


class NoSuchSession(GatewayError):
    """No session has this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no session {key!r}; `semel sessions` lists them, and a first message makes one")
        self.key = key


class NotFound(GatewayError):
    """The part, item, file or other thing that the request names does not exist."""


class BadRequest(GatewayError):
    """The input is invalid; the message names the field and the rule it breaks."""


class Conflict(GatewayError):
    """The request is not possible in the current state of the thing that it names."""


class GatewayUnavailable(GatewayError):
    """The gateway is stopping, or its store cannot be used now. Nothing was accepted; the caller may retry later."""


class UnknownSpawn(GatewayError):
    """The fencing token belongs to no agent process of this gateway (Law 10)."""

    def __init__(self) -> None:
        super().__init__("this token belongs to no agent process of this gateway")
