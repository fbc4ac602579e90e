"""What `[channels.NAME]` may hold with `kind = "slack"`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from semel.channels.problems import check_url, explain, find_file_limit_problems, find_seconds_problems, raise_problems

DEFAULT_API = "https://slack.com/api"
_BOT_TOKEN = re.compile(r"xoxb-[A-Za-z0-9-]{10,250}")
_APP_TOKEN = re.compile(r"xapp-[A-Za-z0-9-]{10,250}")
_SIGNING_SECRET = re.compile(r"[0-9a-fA-F]{32}")

ThreadPolicy = Literal["start", "own", "room"]
"""Which session a message belongs to: see `SlackSettings.threads`."""


@dataclass(frozen=True)
class SlackSettings:
    """One Slack app in one workspace. Times are seconds, sizes bytes.

    It needs `bot_token`, and either `app_token` (Socket Mode) or `signing_secret` (Events API).
    """

    bot_token: str = field(repr=False)
    """The Bot User OAuth Token (xoxb-...) that the installation gave."""
    app_token: str | None = field(default=None, repr=False)
    """The app-level token (xapp-...) with the scope connections:write: events come over Socket Mode."""
    signing_secret: str | None = field(default=None, repr=False)
    """The app's signing secret, instead of `app_token`: Slack posts events to /v1/hooks/NAME."""
    threads: ThreadPolicy = "start"
    """Conversations: start (a mention in a channel starts a thread, and each thread is a session), own (each thread is
    a session, and answers to a channel's messages stay in the channel) or room (a channel with all its threads)."""
    fetch: bool = True
    """Whether files that people send are downloaded."""
    file_limit: int = 50_000_000
    """The most bytes of a file that is received or sent."""
    settle: float = 10.0
    """How long after a lost answer Slack's history is read for the message, before it is taken as not sent."""
    pace: float = 1.0
    """The minimum time between two messages to one channel; Slack allows about one a second."""
    timeout: float = 30.0
    """How long to wait for an answer, once connected. Files get a second more for each 100 kB."""
    api: str = DEFAULT_API
    """The URL of the Web API."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "api", self.api.rstrip("/"))
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        if not _BOT_TOKEN.fullmatch(self.bot_token):
            yield "bot_token should be the Bot User OAuth Token, like xoxb-...; it is under OAuth & Permissions"
        if self.app_token is not None and not _APP_TOKEN.fullmatch(self.app_token):
            yield "app_token should be an app-level token, like xapp-...; it is under Basic Information"
        if self.signing_secret is not None and not _SIGNING_SECRET.fullmatch(self.signing_secret):
            yield "signing_secret should be 32 hexadecimal digits; it is under Basic Information"
        if (self.app_token is None) == (self.signing_secret is None):
            yield "give either app_token (Socket Mode) or signing_secret (Events API over HTTP)"
        if self.threads not in ("start", "own", "room"):
            yield "threads should be start, own or room"
        yield from explain(check_url, "api", self.api, example=DEFAULT_API)
        yield from find_file_limit_problems(self.file_limit)
        yield from find_seconds_problems(self, "settle", "pace", "timeout")

    @property
    def account(self) -> str:
        """The numbers of the workspace and the bot, which a bot token begins with, and the API's host."""
        import httpx2

        return f"bot {'-'.join(self.bot_token.split('-')[1:3])} at {httpx2.URL(self.api).host}"
