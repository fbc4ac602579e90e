"""Accounts, channels and messages of the double, errors of the API, and the faults that a test plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from semel.text.json_types import Json

EPOCH_MS = 1_420_070_400_000
TEXT, DIRECT, THREAD = 0, 1, 11
"""Types of channels."""
FaultKind = Literal["drop", "cut", "hang", "slow", "500", "502", "429", "401", "400", "403"]


class ApiError(Exception):
    """An error of the API. `code`: Discord's own code of the error. `errors`: which field of a form is wrong, and
    how."""

    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.errors = errors

    def body(self) -> Json:
        body: Json = {"message": str(self), "code": self.code}
        return body | ({"errors": self.errors} if self.errors else {})


def invalid_form(field: str, code: str, message: str) -> ApiError:
    """Return the error for a body with a wrong field."""
    return ApiError(400, 50035, "Invalid Form Body", {field: {"_errors": [{"code": code, "message": message}]}})


@dataclass
class DiscordAccount:
    """An account. `nick`: its name in servers."""

    id: str
    name: str
    bot: bool = False
    nick: str = ""

    def json(self) -> Json:
        user: Json = {
            "id": self.id,
            "username": self.name.lower().replace(" ", "_"),
            "discriminator": "0",
            "avatar": None,
        }
        return user | {"global_name": self.name} | ({"bot": True} if self.bot else {})


@dataclass
class StoredMessage:
    """One message. `body`: its message object, as the history shows it. `files`: content by attachment id."""

    body: Json
    is_deleted: bool = False
    reactions: dict[str, list[str]] = field(default_factory=dict)  # emoji -> user ids


@dataclass
class DiscordChannelModel:
    """A channel, a thread or a direct conversation. `hidden`: the bot may not see it. `user`: of a direct one.

    `shows_history`: whether the bot has the permission Read Message History there.
    """

    id: str
    type: int
    name: str = ""
    guild: str = ""
    parent: str = ""
    owner: str = ""
    user: DiscordAccount | None = None
    hidden: bool = False
    shows_history: bool = True
    messages: dict[str, StoredMessage] = field(default_factory=dict)

    def json(self) -> Json:
        body: Json = {"id": self.id, "type": self.type, "last_message_id": next(reversed(self.messages), None)}
        if self.user is not None:
            return body | {"recipients": [self.user.json()]}
        body |= {"name": self.name, "guild_id": self.guild, "parent_id": self.parent or None, "rate_limit_per_user": 0}
        if self.type != THREAD:
            return body | {"position": 0, "permission_overwrites": [], "nsfw": False, "topic": None, "flags": 0}
        state = {
            "archived": False, "locked": False, "auto_archive_duration": 4320,
            "archive_timestamp": "2026-01-01T00:00:00+00:00",
        }  # fmt: skip
        return body | {
            "owner_id": self.owner or "1",
            "message_count": 0,
            "member_count": 1,
            "flags": 0,
            "thread_metadata": state,
        }


@dataclass
class Guild:
    """A server. `role`: the id of the role that Discord makes for the bot. `unavailable`: it is in an outage."""

    id: str
    name: str
    role: str
    unavailable: bool = False


@dataclass
class InteractionModel:
    """An interaction that waits for its acknowledgement. `at`: seconds since the epoch. `answer`: the callback's
    body. `shown`: what its author sees as the answer; None if there is nothing."""

    id: str
    token: str
    at: float
    answer: Json | None = None
    shown: str | None = None


@dataclass
class ApiFault:
    """A fault that strikes requests whose "METHOD PATH" matches a pattern, such as "POST */messages".

    | how | the caller gets |
    |---|---|
    | drop | the connection closed without an answer |
    | cut | the beginning of an answer, then the connection closed |
    | hang | nothing, ever |
    | slow | the right answer, `seconds` later |
    | 500 | 500, in JSON |
    | 502 | 502, an HTML page |
    | 429 | 429 with `retry_after`; `scope`: user, shared or global |
    | 401 | 401, as if the token were revoked |
    | 400, 403 | that refusal, with `code` |

    `after`: whether the request takes effect before the fault strikes. `times`: how many requests it strikes; None: all
    until `clear_faults`. `chance`: the probability that it strikes a request.
    """

    pattern: str
    how: FaultKind
    after: bool = False
    times: int | None = 1
    chance: float = 1.0
    retry_after: float = 1.0
    seconds: float = 0.5
    scope: str = "user"
    code: int = 0

    def __post_init__(self) -> None:
        if self.how not in get_args(FaultKind):
            raise ValueError(f"how is {self.how!r}, and should be one of {', '.join(get_args(FaultKind))}")

    def fits(self, request: str, dice: Callable[[], float]) -> bool:
        """Whether the fault strikes this request. If it does, that counts against `times`.

        `dice`: returns a random number from 0 to 1, to compare with `chance`.
        """
        if self.times == 0 or not fnmatchcase(request, self.pattern) or dice() >= self.chance:
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass
class ApiAnswer:
    """An answer of the API. `body`: JSON, or bytes with their type in `headers`; None: no body."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
