"""Settings of the HTTP face: address, tokens, host names, limits."""

from __future__ import annotations

import ipaddress
from functools import cached_property, lru_cache
from typing import Self

from pydantic import Field, model_validator

from semel.faces.config.file import HttpOptions, NodeSettings

__all__ = ["NodeSettings", "Settings", "TokenNeeded", "is_loopback"]


class TokenNeeded(Exception):
    """Listening beyond loopback needs a token: whoever reaches the port could drive the agents.

    Listen on 127.0.0.1, or give the gateway a token.
    """


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """Whether a host is `localhost`, a name under it, or a loopback address (IPv6 also in brackets)."""
    name = host.strip("[]").lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return (address := _parse_address(name)) is not None and address.is_loopback


def host_name(netloc: str) -> str:
    """Return the host of `name:port`, `[v6]:port`, `name` or `[v6]` in lower case, without port and final dot.

    `name.` is the same host as `name` (RFC 3986, 3.2.2).
    """
    if netloc.startswith("["):
        return netloc.partition("]")[0].lower() + "]"
    return netloc.partition(":")[0].lower().rstrip(".")


def is_address(host: str) -> bool:
    return _parse_address(host.strip("[]")) is not None


def _parse_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class Settings(HttpOptions):
    """Limits are in bytes and seconds. `listen` is the host to bind; beyond loopback, every client needs `token`."""

    listen: str = "127.0.0.1"
    token: str | None = Field(default=None, repr=False)
    nodes: tuple[NodeSettings, ...] = ()
    max_body: int = 1024 * 1024
    send_timeout: float = 60.0  # a watcher that reads nothing for this long is disconnected; it can resume by rev
    login_life: float = 30 * 86400.0

    @model_validator(mode="after")
    def _check_token(self) -> Self:
        if self.demands_token and not self.token:
            raise TokenNeeded(f"{self.listen} is not a loopback address. {TokenNeeded.__doc__}")
        return self

    @property
    def demands_token(self) -> bool:
        return not is_loopback(self.listen)

    @cached_property
    def host_names(self) -> frozenset[str]:
        """`hosts` without ports."""
        return frozenset(host_name(host) for host in self.hosts)

    def knows_host(self, name: str) -> bool:
        """Whether requests may address the gateway by this name (without port).

        DNS rebinding needs a name that an attacker controls, and an IP address is no name. So any IP address is
        accepted where every client needs the token.
        """
        name = name.lower().rstrip(".")
        if is_loopback(name) or name in self.host_names or name.strip("[]") == self.listen.lower():
            return True
        return self.demands_token and is_address(name)
