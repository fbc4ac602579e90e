"""Addresses of places, ids of messages, snowflakes, and the cursor.

An address is a channel's id (also of a direct conversation), followed by `:thread-ID` for a thread in it. `@USER` is
the direct conversation with a person; people are never heard at it. A message id is `CHANNEL/MESSAGE`, in receipts,
keys and references alike, where CHANNEL is the thread if the message is in one: that is where Discord's API finds it.

A snowflake is Discord's id: its upper bits are the time of its creation, so ids grow with time, everywhere
(https://docs.discord.com/developers/reference#snowflakes).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, fields

EPOCH_MS = 1_420_070_400_000
"""The first ms of 2015, from which snowflakes count."""
MAX_DIRECT = 1000
"""Direct conversations that the cursor remembers. Discord does not list them to a bot."""
MAX_OWN = 100
"""Newest messages of our own whose nonce the cursor remembers."""
_ADDRESS = re.compile(r"([0-9]{1,20})(?::thread-([0-9]{1,20}))?")
_USER = re.compile(r"@([0-9]{1,20})")
_MESSAGE = re.compile(r"([0-9]{1,20})/([0-9]{1,20})")


@dataclass(frozen=True)
class DiscordPlace:
    """A parsed address: a channel, a thread in it, or the direct conversation with `user`."""

    channel: str = ""
    thread: str = ""
    user: str = ""

    @property
    def target(self) -> str:
        """The id under which the API knows the place: that of the thread, or else of the channel."""
        return self.thread or self.channel

    def __str__(self) -> str:
        if self.user:
            return f"@{self.user}"
        return f"{self.channel}:thread-{self.thread}" if self.thread else self.channel


def parse_address(address: str) -> DiscordPlace:
    """Parse an address. Raises ValueError."""
    if user := _USER.fullmatch(address):
        return DiscordPlace(user=user[1])
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(
            f"{address!r} is not a Discord address; write a channel's id, CHANNEL:thread-ID, or @ID of a person"
        )
    return DiscordPlace(match[1], match[2] or "")


def message_id(channel: str, message: str) -> str:
    """Return the id of a message, `CHANNEL/MESSAGE`, for receipts, keys and references."""
    return f"{channel}/{message}"


def parse_message_id(id: str) -> tuple[str, str]:
    """Parse a message id. Returns (channel, message). Raises ValueError."""
    match = _MESSAGE.fullmatch(id)
    if match is None:
        raise ValueError(f"{id!r} is not the id of a Discord message, which looks like CHANNEL/MESSAGE")
    return match[1], match[2]


def is_snowflake(value: object) -> bool:
    """Whether a value of the API is a snowflake, which is a string of digits."""
    return isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20


def time_of(snowflake: int) -> float:
    """Return when a snowflake was made, in seconds since the epoch."""
    return ((snowflake >> 22) + EPOCH_MS) / 1000


def snowflake_at(seconds: float) -> int:
    """Return the lowest snowflake that can be made at this time (seconds since the epoch)."""
    return max(0, round(seconds * 1000) - EPOCH_MS) << 22


@dataclass
class DiscordCursor:
    """Where reading goes on. It is stored with the events that it follows.

    `session`, `seq`, `url`: the gateway session to resume, the number of its last event, and where; `session` is "" if
    there is none. `began`: the snowflake of the first start. `newest`: the highest snowflake of a message. `gap`: if
    not 0, messages after this snowflake may be missing. `direct`: channels of direct conversations, the newest last.
    `own`: the newest messages of our own, and the nonce of each. `unopened`: those in channels that belong to a thread
    that could not be opened (`UnopenedThreads`). `roles`: the roles of the bot itself. `commands`: the digest of the
    slash commands at Discord.
    """

    bot: str
    session: str = ""
    seq: int = 0
    url: str = ""
    began: int = 0
    newest: int = 0
    gap: int = 0
    direct: list[str] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)
    unopened: dict[str, str] = field(default_factory=dict)
    roles: list[str] = field(default_factory=list)
    commands: str = ""

    @classmethod
    def load(cls, text: str) -> DiscordCursor | None:
        """Parse the result of `dump`; None if it is malformed."""
        try:
            data = json.loads(text)
            cursor = cls(**data)
        except (ValueError, TypeError):
            return None
        kinds = {"str": str, "int": int, "list[str]": list, "dict[str, str]": dict}
        has_types = all(isinstance(getattr(cursor, each.name), kinds[str(each.type)]) for each in fields(cls))
        return cursor if has_types else None

    def dump(self) -> str:
        """Return the cursor as text, which `load` reads."""
        return json.dumps({name: value for name, value in asdict(self).items() if value}, separators=(",", ":"))

    def drop_session(self) -> None:
        """Forget the session, which cannot be resumed: what came since the newest message has to be read again."""
        self.session, self.seq, self.url = "", 0, ""

    def note_message(self, channel: str, message: str, is_direct: bool) -> None:
        """Note that a message was seen."""
        self.newest = max(self.newest, int(message))
        if is_direct:
            self.direct = [*(each for each in self.direct if each != channel), channel][-MAX_DIRECT:]

    def note_own(self, message: str, nonce: str) -> None:
        """Note the nonce of a message of our own."""
        self.own[message] = nonce
        for oldest in list(self.own)[:-MAX_OWN]:
            del self.own[oldest]
