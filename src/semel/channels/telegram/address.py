"""Addresses of chats, ids of messages, and the cursor.

An address is a chat's id, followed by `:topic-ID` for a topic of a forum. A message id is `CHAT/MESSAGE`, in receipts,
keys and references alike. When a group becomes a supergroup, Telegram gives it a new id; its address here keeps the
first id, because the conversation goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_ADDRESS = re.compile(r"(-?[0-9]{1,19})(?::topic-([0-9]{1,19}))?")
_MESSAGE = re.compile(r"(-?[0-9]{1,19})/([0-9]{1,19})")
GENERAL = 1
"""The General topic, which every forum has. Telegram wants its id omitted when sending."""


@dataclass(frozen=True)
class Place:
    """A parsed address: a chat, or a topic in it."""

    chat: int
    topic: int | None = None

    @property
    def shared(self) -> bool:
        """Whether the chat is a group or channel; their ids are negative."""
        return self.chat < 0

    def __str__(self) -> str:
        return str(self.chat) if self.topic is None else f"{self.chat}:topic-{self.topic}"


def place(address: str) -> Place:
    """Parse an address. Raises ValueError."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ValueError(f"{address!r} is no place on Telegram; write a chat's id, or CHAT:topic-ID")
    topic = int(found[2]) if found[2] else None
    return Place(int(found[1]), None if topic == GENERAL else topic)


def message_id(chat: int, message: int) -> str:
    """The id of a message in receipts, keys and references."""
    return f"{chat}/{message}"


def message(id: str) -> tuple[int, int]:
    """Parse a message id to (chat, message). Raises ValueError."""
    found = _MESSAGE.fullmatch(id)
    if found is None:
        raise ValueError(f"{id!r} is no message on Telegram; they are named CHAT/MESSAGE")
    return int(found[1]), int(found[2])


@dataclass
class Cursor:
    """The position in the bot's updates, the groups that got a new id, and the bot's id.

    Stored as the bare offset, or as JSON if there is more to store.
    """

    offset: int
    moved: dict[int, int] = field(default_factory=dict)  # the first id of a group -> its id now
    bot: int | None = None  # the id of the bot; None: not known yet

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Parse the result of `text`. A malformed cursor is offset 0: Telegram still has all unconfirmed updates."""
        try:
            given: Any = json.loads(text)
            if isinstance(given, int) and not isinstance(given, bool):
                return cls(given)
            moved = {int(old): int(new) for old, new in given.get("moved", {}).items()}
            return cls(int(given["offset"]), moved, int(given["bot"]) if "bot" in given else None)
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls(0)

    def text(self) -> str:
        """The cursor as text, for `read`."""
        told: dict[str, Any] = {"offset": self.offset}
        if self.moved:
            told["moved"] = {str(old): new for old, new in sorted(self.moved.items())}
        if self.bot is not None:
            told["bot"] = self.bot
        return json.dumps(told, separators=(",", ":")) if len(told) > 1 else str(self.offset)


def now(moved: Mapping[int, int], chat: int) -> int:
    """The current id of a chat, which may have become a supergroup."""
    return moved.get(chat, chat)


def first(moved: Mapping[int, int], chat: int) -> int:
    """The first id of a chat, which its address has."""
    return next((old for old, new in moved.items() if new == chat), chat)
