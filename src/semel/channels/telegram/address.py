"""Addresses of chats, ids of messages, and the cursor.

An address is a chat's id, followed by `:topic-ID` for a topic of a forum, or by `:direct-ID` for the topic of a person
in the direct messages of a channel (https://core.telegram.org/bots/api#directmessagestopic). A message id is
`CHAT/MESSAGE`, in receipts, keys and references alike. When a group becomes a supergroup, Telegram gives it a new id;
its address keeps the first id, so that the conversation stays in its session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_ADDRESS = re.compile(r"(-?[0-9]{1,19})(?::(topic|direct)-([0-9]{1,19}))?")
_MESSAGE = re.compile(r"(-?[0-9]{1,19})/([0-9]{1,19})")
GENERAL_TOPIC = 1
"""The General topic, which every forum has. Telegram wants its id omitted when sending."""


@dataclass(frozen=True)
class ChatPlace:
    """A parsed address: a chat, or a topic in it. `is_direct`: it is a topic of a channel's direct messages."""

    chat: int
    topic: int | None = None
    is_direct: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether the chat is a group or channel; their ids are negative."""
        return self.chat < 0

    def __str__(self) -> str:
        if self.topic is None:
            return str(self.chat)
        return f"{self.chat}:{'direct' if self.is_direct else 'topic'}-{self.topic}"

    @property
    def topic_params(self) -> dict[str, int]:
        """The parameter of a call that names the topic; {} if there is none."""
        if self.topic is None:
            return {}
        return {"direct_messages_topic_id" if self.is_direct else "message_thread_id": self.topic}


def parse_address(address: str) -> ChatPlace:
    """Parse an address. Raises ValueError."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(f"{address!r} is not a Telegram address; write a chat's id, CHAT:topic-ID or CHAT:direct-ID")
    is_direct, topic = match[2] == "direct", int(match[3]) if match[3] else None
    return ChatPlace(int(match[1]), None if topic == GENERAL_TOPIC and not is_direct else topic, is_direct)


def message_id(chat: int, message: int) -> str:
    """Return the id of a message, `CHAT/MESSAGE`, for receipts, keys and references."""
    return f"{chat}/{message}"


def message(id: str) -> tuple[int, int]:
    """Parse a message id. Returns (chat, message). Raises ValueError."""
    match = _MESSAGE.fullmatch(id)
    if match is None:
        raise ValueError(f"{id!r} is not the id of a Telegram message, which looks like CHAT/MESSAGE")
    return int(match[1]), int(match[2])


@dataclass
class TelegramCursor:
    """The position in the bot's updates, the groups that got a new id, and the bot's id.

    Stored as the bare offset, or as JSON if there is more to store.
    """

    offset: int
    moved: dict[int, int] = field(default_factory=dict)  # the first id of a group -> its id now
    bot: int | None = None  # the id of the bot; None: not known yet

    @classmethod
    def load(cls, text: str) -> TelegramCursor:
        """Parse the result of `dump`. If it is malformed, the offset is 0: Telegram returns all unconfirmed updates."""
        try:
            data: Any = json.loads(text)
            if isinstance(data, int) and not isinstance(data, bool):
                return cls(data)
            moved = {int(first_id): int(current_id) for first_id, current_id in data.get("moved", {}).items()}
            return cls(int(data["offset"]), moved, int(data["bot"]) if "bot" in data else None)
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls(0)

    def dump(self) -> str:
        """Return the cursor as text, which `load` reads."""
        data: dict[str, Any] = {"offset": self.offset}
        if self.moved:
            data["moved"] = {str(first_id): current_id for first_id, current_id in sorted(self.moved.items())}
        if self.bot is not None:
            data["bot"] = self.bot
        return json.dumps(data, separators=(",", ":")) if len(data) > 1 else str(self.offset)


def current_chat(moved: Mapping[int, int], chat: int) -> int:
    """Return the current id of the chat whose first id is `chat`. `moved`: groups' first ids -> their current ids."""
    return moved.get(chat, chat)


def first_chat(moved: Mapping[int, int], chat: int) -> int:
    """Return the first id of the chat whose current id is `chat`; addresses contain the first id."""
    return next((first_id for first_id, current_id in moved.items() if current_id == chat), chat)
