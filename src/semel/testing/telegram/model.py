"""People, chats, messages and files of the double, errors of the Bot API, and the faults that a test plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from semel.text.json_types import Json

Status = Literal["member", "administrator", "left", "kicked"]
FaultKind = Literal["drop", "cut", "hang", "slow", "500", "502", "429", "401", "400", "403"]


class ApiError(Exception):
    """An error of the Bot API: an answer with `ok: false`.

    `code`: the HTTP status. `parameters`: the answer's, such as retry_after (seconds) or migrate_to_chat_id.
    """

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> Json:
        answer: Json = {"ok": False, "error_code": self.code, "description": self.description}
        return {**answer, "parameters": self.parameters} if self.parameters else answer


def bad_request(reason: str, **parameters: Any) -> ApiError:
    return ApiError(400, f"Bad Request: {reason}", **parameters)


@dataclass
class TelegramAccount:
    """An account. `name`: first and last name. `bot`: whether it is a bot: the double's own or another one."""

    id: int
    name: str
    username: str = ""
    bot: bool = False

    def json(self) -> Json:
        first, _, last = self.name.partition(" ")
        user: Json = {"id": self.id, "is_bot": self.bot, "first_name": first}
        if last:
            user["last_name"] = last
        return {**user, "username": self.username} if self.username else user


@dataclass
class StoredFile:
    """A file that Telegram stores. `content`: its bytes; None if only its `size` is known."""

    id: str
    kind: str
    name: str
    mime: str
    size: int
    content: bytes | None = None
    path: str = ""

    def json(self) -> Json:
        """Return the fields that all kinds of files have in the Bot API."""
        return {"file_id": self.id, "file_unique_id": f"u{self.id}", "file_size": self.size}


@dataclass
class StoredMessage:
    """One message of a chat. `body`: its Message object."""

    body: Json
    from_bot: bool = False  # the bot sent it
    is_deleted: bool = False
    file: StoredFile | None = None
    reactions: dict[int, list[str]] = field(default_factory=dict)  # by user id


@dataclass
class Chat:
    """A chat, and the bot's status in it."""

    id: int
    type: Literal["private", "group", "supergroup", "channel"]
    title: str = ""
    human: TelegramAccount | None = None  # the person of a private chat
    forum: bool = False
    is_direct: bool = False  # whether it holds the direct messages of a channel, a topic for each person
    status: Status = "member"
    blocked: bool = False  # whether the person of a private chat blocked the bot
    moved_to: int | None = None  # the id of the supergroup that this group became
    topics: dict[int, str] = field(default_factory=dict)  # message_thread_id -> name
    messages: dict[int, StoredMessage] = field(default_factory=dict)
    last_message_id: int = 0  # the last message id, if `has_own_message_ids`

    @property
    def has_own_message_ids(self) -> bool:
        """Whether the chat counts its own message ids. (Private chats and basic groups share one count.)"""
        return self.type in ("supergroup", "channel")

    def json(self) -> Json:
        if self.human is not None:
            person = self.human.json()
            del person["is_bot"]
            return {**person, "type": "private"}
        chat: Json = {"id": self.id, "type": self.type, "title": self.title}
        flags = {"is_forum": self.forum, "is_direct_messages": self.is_direct}
        return {**chat, **{name: True for name, holds in flags.items() if holds}}

    def member(self, me: Json) -> Json:
        """Return the bot's ChatMember object in this chat. `me`: the bot's User object."""
        return {"user": me, "status": "kicked" if self.blocked else self.status}


@dataclass
class ApiFault:
    """A fault that strikes calls of a method ("*": any).

    | how | the caller gets |
    |---|---|
    | drop | the connection closed without an answer |
    | cut | the beginning of an answer, then the connection closed |
    | hang | nothing, ever |
    | slow | the right answer, `seconds` later |
    | 500 | 500, in JSON |
    | 502 | 502, an HTML page |
    | 429 | 429 with `retry_after` |
    | 401 | 401, as if the token were revoked |
    | 400, 403 | that refusal, with `description` or a usual one |

    `after`: whether the call takes effect before the fault strikes; if not, it takes no effect. `times`: how many calls
    it strikes; None: all until `clear_faults`. `chance`: the probability that it strikes a call. `retry_after`: in
    seconds, for 429.
    """

    method: str
    how: FaultKind
    after: bool = False
    times: int | None = 1
    chance: float = 1.0
    retry_after: int = 1
    seconds: float = 0.5
    description: str = ""

    def __post_init__(self) -> None:
        if self.how not in get_args(FaultKind):
            raise ValueError(f"how is {self.how!r}, and should be one of {', '.join(get_args(FaultKind))}")

    def fits(self, method: str, dice: Callable[[], float]) -> bool:
        """Whether the fault strikes this call of `method`. If it does, that counts against `times`.

        `dice`: returns a random number from 0 to 1, to compare with `chance`.
        """
        if self.times == 0 or self.method.lower() not in ("*", method.lower()) or dice() >= self.chance:
            return False
        if self.times is not None:
            self.times -= 1
        return True
