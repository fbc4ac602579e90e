"""Who and what there is: people, chats, messages and files, as the Bot API shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Status = Literal["member", "administrator", "left", "kicked"]

DAY = 86400


@dataclass
class Human:
    """An account. `bot`: a program of somebody else's."""

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
class Stored:
    """A file on Telegram's side. `content` is None for one of which only the size is told."""

    id: str
    kind: str
    name: str
    mime: str
    size: int
    content: bytes | None = None
    path: str = ""

    def json(self) -> Json:
        """Without what its kind adds."""
        return {"file_id": self.id, "file_unique_id": f"u{self.id}", "file_size": self.size}


@dataclass
class Kept:
    """One message of a chat. `body` is its Message object."""

    body: Json
    ours: bool = False  # the bot sent it
    gone: bool = False  # deleted
    file: Stored | None = None
    reactions: dict[int, list[str]] = field(default_factory=dict)  # by user id


@dataclass
class Chat:
    """A chat, and how the bot stands in it."""

    id: int
    type: Literal["private", "group", "supergroup", "channel"]
    title: str = ""
    human: Human | None = None  # private: whose it is
    forum: bool = False
    status: Status = "member"
    blocked: bool = False  # private: the person blocked the bot
    moved_to: int | None = None
    topics: dict[int, str] = field(default_factory=dict)  # message_thread_id -> name
    messages: dict[int, Kept] = field(default_factory=dict)
    last: int = 0  # the last message id, where the chat counts its own

    @property
    def counts_alone(self) -> bool:
        """Private chats and basic groups share one count of message ids, the bot's."""
        return self.type in ("supergroup", "channel")

    def json(self) -> Json:
        if self.human is not None:
            person = self.human.json()
            del person["is_bot"]
            return {**person, "type": "private"}
        chat: Json = {"id": self.id, "type": self.type, "title": self.title}
        return {**chat, "is_forum": True} if self.forum else chat

    def member(self, me: Json) -> Json:
        """The bot's ChatMember there."""
        return {"user": me, "status": "kicked" if self.blocked else self.status}


@dataclass
class Fault:
    """What goes wrong with calls of a method ("*": any).

    | how | the caller sees |
    |---|---|
    | drop | the connection closed without an answer |
    | cut | the beginning of an answer, then the connection closed |
    | hang | nothing, ever |
    | slow | the right answer, `seconds` later |
    | 500 | 500, in JSON |
    | 502 | 502, an HTML page |
    | 429 | 429 with `retry_after` |
    | 401 | 401, as if the token were revoked |

    `after`: once the call took effect; else it takes none. `times` None: until `clear_faults`. `chance`: the share of
    calls that meet it.
    """

    method: str
    how: Literal["drop", "cut", "hang", "slow", "500", "502", "429", "401"]
    after: bool = False
    times: int | None = 1
    chance: float = 1.0
    retry_after: int = 1
    seconds: float = 0.5

    def fits(self, method: str, dice: Callable[[], float]) -> bool:
        if self.times == 0 or self.method.lower() not in ("*", method.lower()) or dice() >= self.chance:
            return False
        if self.times is not None:
            self.times -= 1
        return True
