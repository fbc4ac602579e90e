"""What `[channels.NAME]` may hold with `kind = "teams"`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from semel.channels.problems import (
    check_url,
    explain,
    find_file_limit_problems,
    find_seconds_problems,
    raise_problems,
)

DEFAULT_SERVICE = "https://smba.trafficmanager.net/teams"
DEFAULT_LOGIN = "https://login.microsoftonline.com"
DEFAULT_OPENID = "https://login.botframework.com/v1/.well-known/openidconfiguration"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SECRET = re.compile(r"[\x21-\x7e]{16,200}")


@dataclass(frozen=True)
class TeamsSettings:
    """One bot in Microsoft Teams. Times are seconds, sizes bytes."""

    app_id: str
    """The application (client) id of the bot's registration in Microsoft Entra."""
    tenant: str
    """The directory (tenant) id of the registration: the bot is a single-tenant one."""
    client_secret: str = field(repr=False)
    """The value of a client secret of the registration (not the secret's id)."""
    fetch: bool = True
    """Whether files that people send are downloaded."""
    file_limit: int = 50_000_000
    """The most bytes of a file that is received or sent."""
    pace: float = 0.5
    """The minimum time between two messages to one conversation. Teams takes 60 in 30 seconds."""
    timeout: float = 30.0
    """How long to wait for an answer, once connected."""
    service_url: str = DEFAULT_SERVICE
    """The URL of the Bot Connector until an incoming message names another."""
    login: str = DEFAULT_LOGIN
    """The URL of Microsoft's login service."""
    openid: str = DEFAULT_OPENID
    """The URL of the OpenID metadata that names the keys of Microsoft's requests."""

    def __post_init__(self) -> None:
        for name in ("app_id", "tenant"):
            object.__setattr__(self, name, getattr(self, name).lower())
        for name in ("service_url", "login"):
            object.__setattr__(self, name, getattr(self, name).rstrip("/"))
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        if not _ID.fullmatch(self.app_id):
            yield "app_id should be the application (client) id, like 28b3e9f1-...; see the registration's overview"
        if not _ID.fullmatch(self.tenant):
            yield "tenant should be the directory (tenant) id, like 72f988bf-...; see the registration's overview"
        if not _SECRET.fullmatch(self.client_secret):
            yield "client_secret should be the value of a client secret; it is shown once, when it is made"
        yield from explain(check_url, "service_url", self.service_url, example=DEFAULT_SERVICE)
        yield from explain(check_url, "login", self.login, example=DEFAULT_LOGIN)
        yield from explain(check_url, "openid", self.openid, example=DEFAULT_OPENID)
        yield from find_file_limit_problems(self.file_limit)
        yield from find_seconds_problems(self, "pace", "timeout")

    @property
    def account(self) -> str:
        """The bot's id."""
        return f"bot {self.app_id}"
