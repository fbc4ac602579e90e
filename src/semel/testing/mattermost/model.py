"""What the double's server consists of, and how its requests fail."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from semel.text.json_types import Json

MattermostFaultKind = Literal["drop", "hang", "500", "502", "429", "401", "400", "403", "empty"]


class MattermostError(Exception):
    """A request was refused. `id`: Mattermost's name of the error.

    `began`: the beginning of an answer, with status 200, that was sent before the error was found.
    """

    def __init__(self, status: int, id: str, message: str = "It did not work.", began: str = "") -> None:
        super().__init__(id)
        self.status = status
        self.id = id
        self.message = message
        self.began = began

    def body(self) -> Json:
        return {
            "id": self.id, "message": self.message, "detailed_error": "", "request_id": "r" * 26,
            "status_code": self.status,
        }  # fmt: skip


@dataclass
class MattermostFault:
    """What goes wrong with requests whose "METHOD PATH" matches `pattern`.

    `how`: "drop" (the connection is closed), "hang", "502" (a proxy's page), "empty" (a page without a
    post), or a status. `after`: the request takes effect before it fails. `times`: how many requests fail; None: all.
    `skip`: how many pass before them.
    """

    pattern: str
    how: MattermostFaultKind
    after: bool = False
    times: int | None = 1
    retry_after: int = 1
    skip: int = 0

    def fits(self, request: str) -> bool:
        """Return whether it strikes a request, which counts against `times`."""
        if self.times == 0 or not re.search(self.pattern, request):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass
class MattermostRoom:
    """A channel. `posts`: by id, in the order in which they were written, deleted ones included."""

    id: str
    name: str
    kind: Literal["O", "P", "D"] = "O"
    members: set[str] = field(default_factory=set)
    posts: dict[str, Json] = field(default_factory=dict)
    delete_at: int = 0

    def describe(self) -> Json:
        """Return it as the API describes it."""
        last = max((post["create_at"] for post in self.posts.values()), default=0)
        return {
            "id": self.id, "type": self.kind, "name": self.name, "delete_at": self.delete_at, "last_post_at": last,
            "display_name": "" if self.kind == "D" else self.name,
        }  # fmt: skip


@dataclass
class MattermostCall:
    """A request that reached a route. `ids`: those in its path."""

    ids: tuple[str, ...]
    query: Json
    body: Any
    file: Json | None = None
