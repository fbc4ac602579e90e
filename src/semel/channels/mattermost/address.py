"""Addresses of places, ids, and the cursor.

An address is a channel's id (also of a direct message), followed by `:thread-ID` for a thread in it, where ID is the
post that the thread began with. `@USER` is the direct message with a person; people are never heard at it. A message's
id is that of its post. Mattermost's ids have 26 letters and digits.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from semel.text.json_types import list_at, text_at

MAX_THREADS = 500
"""Threads that the cursor remembers."""
_ID = "[a-z0-9]{26}"
_ADDRESS = re.compile(rf"({_ID})(?::thread-({_ID}))?|@({_ID})")


@dataclass(frozen=True)
class MattermostPlace:
    """A parsed address: a channel, a thread in it, or the direct message with `user`."""

    channel: str = ""
    thread: str = ""
    user: str = ""

    def __str__(self) -> str:
        if self.user:
            return f"@{self.user}"
        return f"{self.channel}:thread-{self.thread}" if self.thread else self.channel


def is_id(text: object) -> bool:
    """Whether a value is an id of Mattermost."""
    return isinstance(text, str) and re.fullmatch(_ID, text) is not None


def check_id(text: object) -> str:
    """Return an id. Raises ValueError if the value is none."""
    if not is_id(text):
        raise ValueError(f"{text!r} is not an id of Mattermost")
    return str(text)


def parse_address(address: str) -> MattermostPlace:
    """Parse an address. Raises ValueError."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(
            f"{address[:80]!r} is not an address of Mattermost: a channel's id of 26 letters and digits (View Info in "
            "the channel's menu), for a thread followed by :thread-ID, or @ and a person's id"
        )
    return MattermostPlace(match[1] or "", match[2] or "", match[3] or "")


@dataclass
class MattermostCursor:
    """What was put, so that the history can be read from there on.

    `bot`: the user id of the bot that it belongs to. `first`: when the channel first ran; older posts are never read.
    `at`: the time up to which everything was put. Both are ms since 1970, by the server's clock. `threads`: the first
    posts of threads in which every message is for the bot, the least recent first.
    """

    bot: str
    first: int
    at: int
    threads: dict[str, None] = field(default_factory=dict)

    def join_thread(self, root: str) -> None:
        """Remember that a thread began with the bot, or with a mention of it."""
        self.threads.pop(root, None)
        self.threads[root] = None
        if len(self.threads) > MAX_THREADS:
            del self.threads[next(iter(self.threads))]

    def advance(self, at: int) -> None:
        self.at = max(self.at, at)

    def dump(self) -> str:
        fields = {"bot": self.bot, "first": self.first, "at": self.at, "threads": list(self.threads)}
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> MattermostCursor:
        """Return the saved cursor. Raises ValueError if it is none of this channel."""
        saved = json.loads(text)
        bot = text_at(saved, "bot")
        if bot is None:
            raise ValueError("the saved cursor is not one of Mattermost")
        threads = dict.fromkeys(str(root) for root in list_at(saved, "threads"))
        return cls(bot, int(saved["first"]), int(saved["at"]), threads)
