"""The URLs under which a browser reaches the page, from this machine's network too."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

ALL_ADDRESSES = frozenset({"", "0.0.0.0", "::"})
_DOCUMENTATION_ADDRESSES = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses that nobody has (RFC 5737, RFC 3849). The route to them shows which of our addresses others see."""

CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
"""Files that Docker and Podman put into each container."""


def list_page_urls(host: str, port: int, hosts: Sequence[str] = ()) -> list[str]:
    """Return the page's URLs, the most useful first.

    `host`, `port`: where the gateway listens. `hosts`: the names of a proxy, which serves the page over https, each
    with its port if that is unusual. A container's own addresses are seldom reached from elsewhere: browsers use a port
    that its host publishes, in the usual case the same one on loopback.
    """
    addresses = list_own_addresses(host) if host in ALL_ADDRESSES else [host]
    if host in ALL_ADDRESSES and any(mark.exists() for mark in CONTAINER_MARKS):
        addresses = list(dict.fromkeys(("127.0.0.1", *addresses)))
    return [
        *(f"https://{name}" for name in hosts),
        *(f"http://{_bracket_host(address)}:{port}" for address in addresses),
    ]


def list_own_addresses(host: str = "") -> list[str]:
    """Return this machine's addresses, without loopback, that a server on `host` is reached at; the main one first.

    `host`: "0.0.0.0" has no IPv6 addresses, "::" no IPv4 ones. If the machine has no network: loopback.
    """
    families = {"0.0.0.0": {socket.AF_INET}, "::": {socket.AF_INET6}}.get(host, {socket.AF_INET, socket.AF_INET6})
    addresses = [_find_route(family, target) for family, target in _DOCUMENTATION_ADDRESSES if family in families]
    with contextlib.suppress(OSError):
        resolved = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        addresses += [str(address[0]) for family, _, _, _, address in resolved if family in families]
    usable = [address for address in dict.fromkeys(addresses) if address and _is_reachable(address)]
    return usable or ["::1" if host == "::" else "127.0.0.1"]


def _find_route(family: socket.AddressFamily, target: str) -> str:
    """Return the address from which this machine would send to `target`; "" if it has no route. Sends nothing."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((target, 9))
            return str(sock.getsockname()[0])
    except OSError:
        return ""


def _is_reachable(address: str) -> bool:
    """Whether others can use this address: it is neither loopback nor valid on one link only."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified)


def _bracket_host(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
