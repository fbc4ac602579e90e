"""Tell public IP addresses from those inside a machine or a private network."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_IPV4_EMBEDDING_NETWORKS = tuple(
    map(ipaddress.ip_network, ("64:ff9b::/96", "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96"))
)
"""IPv6 networks whose addresses end in an IPv4 address: NAT64 (RFC 6052), IPv4-compatible and IPv4-mapped (RFC 4291),
IPv4-translated (RFC 2765)."""
_ISATAP = (0x00005EFE, 0x02005EFE)
"""The third 32-bit word of an ISATAP address; the fourth word is an IPv4 address (RFC 5214)."""
_NON_PUBLIC_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "100:0:0:1::/64", "3fff::/20", "5f00::/16", "fec0::/10"),
    )
)
"""Non-public networks that `is_global` of some Python versions accepts (IANA special-purpose registries, RFC 3879)."""


def is_public(address: str) -> bool:
    """Whether an IP address is outside of loopback, private, link-local and other special ranges.

    An IPv6 address that embeds IPv4 addresses is public only if all of these are, too (RFC 4291, 6052, 4380, 5214). For
    IPv4-mapped and 6to4 addresses (RFC 3056) only the embedded address counts, because `is_global` of the outer one
    differs between Python versions. Raises ValueError if `address` is not an IP address.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    embedded = _embedded_addresses(ip)
    only_embedded = isinstance(ip, ipaddress.IPv6Address) and (ip.ipv4_mapped or ip.sixtofour) is not None
    return all(map(_is_globally_routable, embedded if only_embedded else (ip, *embedded)))


def _is_globally_routable(ip: Address) -> bool:
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _NON_PUBLIC_NETWORKS)


def _embedded_addresses(ip: Address) -> list[Address]:
    if isinstance(ip, ipaddress.IPv4Address):
        return []
    embedded: list[Address | None] = [ip.sixtofour, *(ip.teredo or ())]
    if any(ip in network for network in _IPV4_EMBEDDING_NETWORKS) or int(ip) >> 32 & 0xFFFFFFFF in _ISATAP:
        embedded.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return [item for item in embedded if item is not None]
