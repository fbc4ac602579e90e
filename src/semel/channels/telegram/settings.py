"""What `[channels.NAME]` may hold with `kind = "telegram"`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from semel.channels.problems import check_url, explain, find_seconds_problems, raise_problems

DEFAULT_API = "https://api.telegram.org"
MAX_POLL_S = 50.0
"""Maximum seconds for which Telegram holds a poll open."""
_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}")


@dataclass(frozen=True)
class TelegramSettings:
    """One Telegram bot. Times are seconds."""

    token: str = field(repr=False)
    """The bot's token from BotFather, like 123456:AA..."""
    api: str = DEFAULT_API
    """The URL of the Bot API, for example of your own Bot API server."""
    poll: float = MAX_POLL_S
    """How long a request for updates is held open, at most 50 seconds."""
    timeout: float = 30.0
    """How long to wait for an answer, once connected. Files get a second more for each 100 kB."""
    pace: float = 1.0
    """The minimum time between two messages to one chat."""
    previews: bool = False
    """Whether links in messages show a preview."""
    fetch: bool = True
    """Whether files that people send are downloaded."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "api", self.api.rstrip("/"))
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        if not _TOKEN.fullmatch(self.token):
            yield "token should be what BotFather gave, like 123456:AA...; ask it with /token"
        yield from explain(check_url, "api", self.api, example=DEFAULT_API)
        if not 0 <= self.poll <= MAX_POLL_S:
            yield (f"poll should be at most {MAX_POLL_S:g} seconds: Telegram holds no request open for longer")
        yield from find_seconds_problems(self, "timeout", "pace")

    @property
    def account(self) -> str:
        """The bot's id, which is the beginning of the token, and the API host."""
        import httpx2

        return f"bot {self.token.partition(':')[0]} at {httpx2.URL(self.api).host}"
