"""What the double's workspace consists of, and how its calls fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from semel.text.json_types import Json

FaultKind = Literal["drop", "hang", "500", "502", "429", "error"]


class SlackError(Exception):
    """A call was refused. `code`: Slack's name of the error. `more`: other fields of the answer."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.more = more


@dataclass
class SlackFault:
    """What goes wrong with calls of a method ("*": any; "file": the download of a file).

    `how`: "drop" (the connection is closed), "hang", "500", "502" (a page), "429", or "error" (the answer's `error` is
    `code`). `after`: the call takes effect before it fails. `times`: how many calls fail; None: all. `skip`: how many
    calls pass before them.
    """

    method: str
    how: FaultKind
    after: bool = False
    times: int | None = 1
    retry_after: int = 1
    code: str = "internal_error"
    skip: int = 0

    def fits(self, method: str) -> bool:
        """Return whether it strikes a call of this method. The call counts against `times`."""
        if self.method not in ("*", method) or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass
class SlackConversation:
    """A conversation. `messages`: by `ts`, in the order in which they were written."""

    id: str
    name: str = ""
    kind: Literal["public_channel", "private_channel", "mpim", "im"] = "public_channel"
    members: set[str] = field(default_factory=set)
    messages: dict[str, Json] = field(default_factory=dict)
    is_archived: bool = False
    user: str = ""  # of a direct message: the person

    def describe(self) -> Json:
        """Return it as the Web API describes it."""
        if self.kind == "im":
            return {"id": self.id, "is_im": True, "user": self.user}
        flags = {"is_channel": self.kind == "public_channel", "is_mpim": self.kind == "mpim"}
        return {"id": self.id, "name": self.name, "is_archived": self.is_archived, **flags}


@dataclass
class StoredSlackFile:
    """A file. `content`: None until it was uploaded."""

    id: str
    name: str
    mime: str
    size: int
    user: str
    content: bytes | None = None
    is_complete: bool = False
    channels: list[str] = field(default_factory=list)


@dataclass
class PendingEnvelope:
    """An envelope that was not acknowledged. `sends`: how often it was sent."""

    envelope: Json
    sends: int = 0
