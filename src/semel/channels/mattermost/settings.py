"""What `[channels.NAME]` may hold with `kind = "mattermost"`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from semel.channels.problems import check_url, explain, find_file_limit_problems, find_seconds_problems, raise_problems

_TOKEN = re.compile(r"[A-Za-z0-9._-]{20,500}")

MattermostThreads = Literal["start", "own", "room"]
"""Which session a message belongs to: see `MattermostSettings.threads`."""


@dataclass(frozen=True)
class MattermostSettings:
    """One bot account of a Mattermost server. Times are seconds, sizes bytes."""

    url: str
    """The server's address, like https://chat.example.org."""
    token: str = field(repr=False)
    """The bot account's access token."""
    threads: MattermostThreads = "start"
    """Conversations: start (a mention in a channel starts a thread, and each thread is a session), own (each thread is
    a session, and answers to a channel's messages stay in the channel) or room (a channel with all its threads)."""
    fetch: bool = True
    """Whether files that people send are downloaded."""
    file_limit: int = 50_000_000
    """The most bytes of a file that is received or sent."""
    settle: float = 5.0
    """How long after a lost answer the channel's history is read for the message, before it is taken as not sent."""
    pace: float = 0.2
    """The minimum time between two messages to one channel."""
    timeout: float = 30.0
    """How long to wait for an answer, once connected. Files get a second more for each 100 kB."""
    websocket: str = ""
    """The URL of the WebSocket, like wss://...; by default, the one below `url`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", self.url.rstrip("/"))
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        yield from explain(check_url, "url", self.url, example="https://chat.example.org")
        if not _TOKEN.fullmatch(self.token):
            yield "token should be the bot account's access token: Integrations, Bot Accounts, Create New Token"
        if self.threads not in ("start", "own", "room"):
            yield "threads should be start, own or room"
        if self.websocket:
            yield from explain(check_url, "websocket", self.websocket, ("wss", "ws"))
        yield from find_file_limit_problems(self.file_limit)
        yield from find_seconds_problems(self, "settle", "pace", "timeout")

    @property
    def websocket_url(self) -> str:
        """The URL of the WebSocket."""
        return self.websocket or f"ws{self.url.removeprefix('http')}/api/v4/websocket"
