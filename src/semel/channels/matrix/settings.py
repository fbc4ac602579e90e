"""The settings of a Matrix account: `[channels.NAME]` with `kind = "matrix"`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from semel.channels.problems import explain, find_file_limit_problems, find_seconds_problems, parse_url, raise_problems
from semel.channels.public_address import is_public

USER = re.compile(r"@[^:\s\x00-\x1f\x7f]{1,200}:[A-Za-z0-9.:\[\]-]{1,230}")
"""A user id: @localpart:server (historical ones have odd localparts)."""
DEVICE = "SEMEL"
_DEVICE = re.compile(r"[A-Za-z0-9._~-]{1,64}")


@dataclass(frozen=True)
class MatrixSettings:
    """One Matrix account. Times are seconds, sizes bytes.

    It needs `homeserver`, and either `token` or `user` and `password`.
    """

    homeserver: str
    """The homeserver's URL for clients, like `https://matrix.example.org`."""
    user: str = ""
    """The account, like `@bot:example.org`."""
    password: str | None = field(default=None, repr=False)
    """The account's password."""
    token: str | None = field(default=None, repr=False)
    """An access token, instead of a password."""
    device: str = ""
    """The device id for logins; with `token`, the device to which it should belong. Default: SEMEL."""
    join: Literal["known", "all", "never"] = "known"
    """Whose invitations to rooms are accepted: known (from people who may talk), all, or never."""
    notices: bool = False
    """Whether messages are sent as `m.notice`, which other bots do not answer."""
    file_limit: int = 50_000_000
    """The most bytes of a file that is received or sent."""
    key_life: float = 86400.0
    """How long the homeserver remembers a transaction id."""
    timeout: float = 30.0
    """How long to wait for an answer, once connected."""
    pace: float = 0.0
    """The minimum time between two messages to one address."""
    allow_http: bool = False
    """Whether `homeserver` may be an http:// URL outside this machine and its network."""

    def __post_init__(self) -> None:
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        yield from explain(_check_homeserver, self.homeserver, self.allow_http)
        if (self.password is None) == (self.token is None):
            yield "give either token, or user and password"
        if self.password is not None and not self.user:
            yield "a password needs user, like @bot:example.org"
        if self.user and not USER.fullmatch(self.user):
            yield f"user is {self.user!r}; a Matrix user is like @bot:example.org"
        if "" in (self.password, self.token):
            yield "the password or token is empty"
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and " " not in self.token):
            yield "token holds characters that no access token has; copy it again"
        if self.device and not _DEVICE.fullmatch(self.device):
            yield f"device is {self.device!r}; it is 1 to 64 of A-Z a-z 0-9 . _ ~ -"
        yield from find_file_limit_problems(self.file_limit)
        yield from find_seconds_problems(self, "key_life", "timeout", "pace")

    @property
    def base(self) -> str:
        """The homeserver's address without a trailing slash."""
        return self.homeserver.rstrip("/")

    @property
    def pinned(self) -> str:
        """The device id for logins. It must stay the same, because transaction ids are valid per device."""
        return self.device or DEVICE

    @property
    def has_pinned_device(self) -> bool:
        """Whether every login is known to be of the same device. A token without `device` may be of another one."""
        return self.token is None or bool(self.device)


def _check_homeserver(text: str, allow_http: bool) -> None:
    url = parse_url("homeserver", text)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("homeserver should begin with https:// and name a host, like https://matrix.example.org")
    if url.username or url.password or url.query or url.fragment:
        raise ValueError("homeserver should be an address alone, without a user, a query or a fragment")
    if "/_matrix" in url.path:
        raise ValueError("homeserver should end before /_matrix")
    if url.scheme == "http" and not allow_http and not _is_local_host(url.host):
        raise ValueError(
            f"http:// would show the password to everybody on the way to {url.host}: "
            "use https://, or set allow_http = true"
        )


def _is_local_host(host: str) -> bool:
    """Whether the host is this machine or in its local network, by its address or name."""
    try:
        return not is_public(host)
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal", ".lan", ".home.arpa"))
