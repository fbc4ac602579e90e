"""Addresses of Slack conversations, message ids, and the cursor.

    C0123ABCD                            a channel, a private channel (G..., C...) or a direct message (D...)
    C0123ABCD:thread-1700000000123456    a thread in it, by the number of its first message
    U0123ABCD                            a person: the direct message with them, opened if needed

A message's id is CHANNEL/NUMBER. The number is its `ts` without the dot, as in Slack's own permalinks: `ts` is unique
in a channel and grows with each message there.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field

from semel.text.json_types import list_at, object_at, text_at

MAX_REMEMBERED_THREADS = 50
"""How many threads the cursor names: those in which the bot spoke or was addressed last."""
MAX_REMEMBERED_CLIENT_IDS = 100
"""How many messages the cursor knows by their `client_msg_id`. A repeat was seen after 39 seconds."""
_MARK = ":thread-"
_TS = re.compile(r"(\d{1,12})\.(\d{6})")
_NUMBER = re.compile(r"\d{7,18}")
_CHANNEL = re.compile(r"[CGD][A-Z0-9]{1,40}")
_USER = re.compile(r"[UW][A-Z0-9]{1,40}")


@dataclass(frozen=True)
class SlackPlace:
    """A parsed address.

    `channel`: the id of a conversation, or of a person. `thread`: the `ts` of the first message of a thread there.
    """

    channel: str
    thread: str | None = None

    @property
    def is_person(self) -> bool:
        return _USER.fullmatch(self.channel) is not None

    def __str__(self) -> str:
        return self.channel if self.thread is None else f"{self.channel}{_MARK}{to_number(self.thread)}"


def parse_address(address: str) -> SlackPlace:
    """Parse an address. Raises ValueError, whose text says what an address looks like."""
    channel, mark, number = address.partition(_MARK)
    is_valid = _CHANNEL.fullmatch(channel) or (not mark and _USER.fullmatch(channel))
    if not is_valid or (mark and not _NUMBER.fullmatch(number)):
        raise ValueError(f"{address!r} is not a Slack channel (C...), direct message (D...), thread or person (U...)")
    return SlackPlace(channel, to_ts(number) if mark else None)


def is_direct(channel: str) -> bool:
    """Return whether a conversation is a direct message with one person."""
    return channel.startswith("D")


def to_number(ts: str) -> str:
    """Return a `ts` as the number in a message id. Raises ValueError."""
    match = _TS.fullmatch(ts)
    if match is None:
        raise ValueError(f"{ts!r} is not a time stamp of Slack")
    return match[1] + match[2]


def to_ts(number: str) -> str:
    """Return the `ts` of a number from a message id."""
    return f"{number[:-6]}.{number[-6:]}"


def message_id(channel: str, ts: str) -> str:
    """Return the id of a message. Raises ValueError if the channel or `ts` is none."""
    return f"{check_channel(channel)}/{to_number(ts)}"


def check_channel(channel: str) -> str:
    """Return the id of a conversation. Raises ValueError if it is none."""
    if not _CHANNEL.fullmatch(channel):
        raise ValueError(f"{channel!r} is not the id of a Slack conversation")
    return channel


def parse_message_id(id: str) -> tuple[str, str]:
    """Return (channel, `ts`) of a message id. Raises ValueError."""
    channel, _, number = id.partition("/")
    if not _CHANNEL.fullmatch(channel) or not _NUMBER.fullmatch(number):
        raise ValueError(f"{id!r} is not the id of a Slack message")
    return channel, to_ts(number)


def _digest(channel: str, author: str, id: str) -> str:
    return hashlib.blake2b(f"{channel} {author} {id}".encode(), digest_size=8).hexdigest()


@dataclass
class SlackCursor:
    """What was put, so that the history can be read from there on.

    `team`, `bot`: whose messages they are. `first`: when the channel first ran; older messages are never read. `at`:
    the time stamp up to which everything was put, apart from what Slack delivers late. Both are seconds since the
    epoch. `threads`: threads that the bot takes part in, as (channel, `ts`), the least recent first. The value says
    whether the thread began with a mention of the bot, so that every reply in it is for the bot.
    `first_ts`: the `ts` of the newest messages, by a digest of channel, author and `client_msg_id`; of a repeat, by its
    own `ts` instead.
    """

    team: str
    bot: str
    first: float
    at: float
    threads: dict[tuple[str, str], bool] = field(default_factory=dict)
    first_ts: dict[str, str] = field(default_factory=dict)

    def join_thread(self, channel: str, ts: str, began_with_us: bool = False) -> None:
        """Remember that the bot takes part in a thread. `began_with_us`: its first message mentions the bot."""
        began_with_us = self.threads.pop((channel, ts), False) or began_with_us
        self.threads[channel, ts] = began_with_us
        if len(self.threads) > MAX_REMEMBERED_THREADS:
            del self.threads[next(iter(self.threads))]

    def began_with_us(self, channel: str, ts: str | None) -> bool:
        """Return whether a thread is known to have begun with a mention of the bot."""
        return ts is not None and self.threads.get((channel, ts), False)

    def is_repeat(self, channel: str, author: str, client_msg_id: str | None, ts: str) -> bool:
        """Return whether another message has this `client_msg_id`. If none is known, remember this one by its `ts`.

        An `app_mention` may have none; it is a repeat if the message with its `ts` was one. If that message comes only
        after it, the mention counts as new: nothing but the wording could tell it from another one.
        """
        first_ts = self.first_ts.get(_digest(channel, author, client_msg_id or ts), ts)
        if client_msg_id is not None:
            self.first_ts[_digest(channel, author, client_msg_id if first_ts == ts else ts)] = first_ts
        if len(self.first_ts) > MAX_REMEMBERED_CLIENT_IDS:
            del self.first_ts[next(iter(self.first_ts))]
        return first_ts != ts

    def advance(self, ts: float) -> None:
        self.at = max(self.at, ts)

    def dump(self) -> str:
        threads = [[channel, ts, began] for (channel, ts), began in self.threads.items()]
        fields = {"team": self.team, "bot": self.bot, "first": self.first, "at": self.at, "threads": threads}
        return json.dumps(fields | {"first_ts": self.first_ts}, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> SlackCursor:
        """Return the saved cursor. Raises ValueError if it is none of this channel."""
        saved = json.loads(text)
        team, bot = text_at(saved, "team"), text_at(saved, "bot")
        if team is None or bot is None:
            raise ValueError("the saved cursor is not one of Slack")
        threads = {(str(channel), str(ts)): bool(began) for channel, ts, began in list_at(saved, "threads")}
        first_ts = {str(digest): str(ts) for digest, ts in object_at(saved, "first_ts").items()}
        return cls(team, bot, float(saved["first"]), float(saved["at"]), threads, first_ts)
