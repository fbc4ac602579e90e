"""Where a chat is, and where messages are: addresses, and the ids of messages.

An address is a chat's id, with `:topic-ID` behind it for a topic of a forum. A message's id is `CHAT/MESSAGE`: the
same in receipts, keys and references. A group that became a supergroup has a new id; its address stays, since people
go on with the same conversation.
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
"""The topic that every forum has. Telegram wants it left out where something is sent."""


@dataclass(frozen=True)
class Place:
    """A chat, or a topic of one."""

    chat: int
    topic: int | None = None

    @property
    def shared(self) -> bool:
        """A group: ids of groups and channels are negative."""
        return self.chat < 0

    def __str__(self) -> str:
        return str(self.chat) if self.topic is None else f"{self.chat}:topic-{self.topic}"


def place(address: str) -> Place:
    """Read an address. Raises ValueError."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ValueError(f"{address!r} is no place on Telegram; write a chat's id, or CHAT:topic-ID")
    topic = int(found[2]) if found[2] else None
    return Place(int(found[1]), None if topic == GENERAL else topic)


def message_id(chat: int, message: int) -> str:
    """What names a message, in receipts and keys."""
    return f"{chat}/{message}"


def message(id: str) -> tuple[int, int]:
    """(chat, message). Raises ValueError."""
    found = _MESSAGE.fullmatch(id)
    if found is None:
        raise ValueError(f"{id!r} is no message on Telegram; they are named CHAT/MESSAGE")
    return int(found[1]), int(found[2])


@dataclass
class Cursor:
    """How far the account was read, which groups have moved, and whose it is. As a text: the offset, or JSON."""

    offset: int
    moved: dict[int, int] = field(default_factory=dict)  # the first id of a group -> its id now
    bot: int | None = None  # the id of the bot; None: not known yet

    @classmethod
    def read(cls, text: str) -> Cursor:
        """What `text` gave. One that cannot be read is the beginning: Telegram keeps what was not confirmed."""
        try:
            given: Any = json.loads(text)
            if isinstance(given, int) and not isinstance(given, bool):
                return cls(given)
            moved = {int(old): int(new) for old, new in given.get("moved", {}).items()}
            return cls(int(given["offset"]), moved, int(given["bot"]) if "bot" in given else None)
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls(0)

    def text(self) -> str:
        """To be read again."""
        told: dict[str, Any] = {"offset": self.offset}
        if self.moved:
            told["moved"] = {str(old): new for old, new in sorted(self.moved.items())}
        if self.bot is not None:
            told["bot"] = self.bot
        return json.dumps(told, separators=(",", ":")) if len(told) > 1 else str(self.offset)


def now(moved: Mapping[int, int], chat: int) -> int:
    """The id that this chat has now."""
    return moved.get(chat, chat)


def first(moved: Mapping[int, int], chat: int) -> int:
    """The id by which this chat is known here."""
    return next((old for old, new in moved.items() if new == chat), chat)
