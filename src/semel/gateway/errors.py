"""The errors that the gateway's API raises for requests that it cannot carry out. Each message says what to do."""

from __future__ import annotations

import re

PROBLEM_URN = "urn:semel:problem:"
"""The beginning of a problem's `type`; its code follows (RFC 9457; docs/api.md, "Problems")."""

_FIELD = re.compile(r"([a-z]\w*(?:\[\d+\]|\.\w+)*): ")
"""The field at the beginning of a message, such as "title: at most 200 characters"."""


class GatewayError(Exception):
    """The gateway could not carry out the request. This is the base class of the errors below."""


class NoSuchSession(GatewayError):
    """No session has this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no session {key!r}; `semel sessions` lists them, and a first message makes one")
        self.key = key


class NotFound(GatewayError):
    """The request names a part, an item, a file or something else that does not exist."""


class BadRequest(GatewayError):
    """The input is invalid. The message begins with the field, if it is one, and names the rule that it breaks."""

    @property
    def field(self) -> str | None:
        """The field that the message names, such as "title" or "blocks[2]"; None if it names none."""
        match = _FIELD.match(str(self))
        return None if match is None else match[1]


class Conflict(GatewayError):
    """The thing that the request names is in a state that does not allow the request."""


class SessionBusy(Conflict):
    """A turn runs in the session, or is about to."""

    def __init__(self) -> None:
        super().__init__("a turn runs in this session; ask again when it is over, or stop it")


class GatewayUnavailable(GatewayError):
    """The gateway is stopping, or its store cannot be used now. Nothing was accepted; the caller may retry later."""


class UnknownSpawn(GatewayError):
    """The fencing token belongs to no agent process of this gateway (Law 10)."""

    def __init__(self) -> None:
        super().__init__(
            "these tools belong to agents: they take the token that the gateway gives a running agent process in "
            "session/new (see semel docs tools), and this request has no such token. Other programs use the HTTP API "
            "(see semel docs front-end)"
        )
