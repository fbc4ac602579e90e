"""Settings of the HTTP face: address, tokens, host names, limits."""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache


class TokenNeeded(ValueError):
    """Listening beyond loopback needs a token: whoever reaches the port could drive the agents.

    Listen on 127.0.0.1, or give the gateway a token.
    """


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """True for `localhost`, names under it, and loopback addresses (brackets of IPv6 allowed)."""
    name = host.strip("[]").lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return (address := _address(name)) is not None and address.is_loopback


def is_address(host: str) -> bool:
    return _address(host.strip("[]")) is not None


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


@dataclass(frozen=True)
class Node:
    """A machine that reports events with a token of its own, to the sessions that `sessions` matches."""

    name: str
    token: str = field(repr=False)
    sessions: tuple[str, ...] = ()  # shell patterns of session keys; empty for no session
    source: str = ""  # the source of its events (Law 1), kept when it is renamed; default node:NAME

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source or f"node:{self.name}")

    @property
    def digest(self) -> bytes:
        """Digest of the token, by which the ledger recognises a renamed node."""
        return hashlib.blake2b(self.token.encode(), digest_size=16, person=b"semel node").digest()

    def may_report_to(self, session: str) -> bool:
        return any(fnmatchcase(session, pattern) for pattern in self.sessions)


@dataclass(frozen=True)
class Settings:
    """Limits are in bytes and seconds. `listen` is the host to bind; beyond loopback, every client needs `token`.

    `hosts` are further host names of the gateway, such as those of a proxy or tunnel.
    """

    listen: str = "127.0.0.1"
    token: str | None = None
    hosts: frozenset[str] = field(default_factory=frozenset)
    nodes: tuple[Node, ...] = ()
    max_body: int = 1024 * 1024
    heartbeat: float = 15.0
    send_timeout: float = 60.0  # a watcher that reads nothing for this long is disconnected; it can resume by rev
    login_life: float = 30 * 86400.0

    def __post_init__(self) -> None:
        if self.demands_token and not self.token:
            raise TokenNeeded(f"{self.listen} is not a loopback address. {TokenNeeded.__doc__}")

    @property
    def demands_token(self) -> bool:
        return not is_loopback(self.listen)

    def knows_host(self, name: str) -> bool:
        """Whether requests may address the gateway by this name (without port).

        DNS rebinding needs a name that an attacker controls. So any IP address is accepted where a token is needed.
        """
        name = name.lower().rstrip(".")
        if is_loopback(name) or name in self.hosts or name.strip("[]") == self.listen.lower():
            return True
        return self.demands_token and is_address(name)
