"""What `[channels.NAME]` may hold with `kind = "discord"`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from semel.channels.problems import check_url, explain, find_seconds_problems, raise_problems

DEFAULT_API = "https://discord.com/api/v10"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{18,40}\.[A-Za-z0-9_-]{5,20}\.[A-Za-z0-9_-]{20,100}")


@dataclass(frozen=True)
class DiscordSettings:
    """One Discord bot. Times are seconds."""

    token: str = field(repr=False)
    """The bot's token from the Developer Portal."""
    threads: Literal["own", "room", "open"] = "own"
    """own: a thread is a session of its own. room: it belongs to its channel's session. open: as own, and a message
    that mentions the bot in a channel opens a thread."""
    content: bool = True
    """Whether the bot reads messages that do not mention it (the Message Content Intent)."""
    commands: bool = True
    """Whether Semel's commands are offered as slash commands."""
    previews: bool = False
    """Whether links in messages show a preview."""
    fetch: bool = True
    """Whether files that people send are downloaded."""
    key_life: float = 120.0
    """How long Discord recognises a repeated nonce."""
    timeout: float = 30.0
    """How long to wait for an answer, once connected. Files get a second more for each 100 kB."""
    pace: float = 0.5
    """The minimum time between two messages to one channel."""
    api: str = DEFAULT_API
    """The URL of the REST API."""
    gateway: str = ""
    """The URL of the gateway, like wss://...; by default, the one that the REST API names."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "api", self.api.rstrip("/"))
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        if not _TOKEN.fullmatch(self.token):
            yield (
                "token should be the bot's token, three parts with dots between them: in the Developer Portal, your "
                "application, Bot, Reset Token"
            )
        yield from explain(check_url, "api", self.api, ("https", "http"))
        if self.gateway:
            yield from explain(check_url, "gateway", self.gateway, ("wss", "ws"))
        if self.threads not in ("own", "room", "open"):
            yield 'threads should be "own", "room" or "open"'
        yield from find_seconds_problems(self, "timeout", "pace", "key_life")

    @property
    def account(self) -> str:
        """The bot's id, which is the first part of the token in base64, and the API's host."""
        import httpx2

        return f"bot {_read_bot_id(self.token)} at {httpx2.URL(self.api).host}"


def _read_bot_id(token: str) -> str:
    first = token.partition(".")[0]
    try:
        id = base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return first
    return id if id.isdigit() else first
