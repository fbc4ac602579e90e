"""XMPP addresses (RFC 7622): `local@domain/resource`.

Addresses from a server are already in normal form; only those from the configuration are normalized here.
"""

from __future__ import annotations

import re
import unicodedata

_LOCAL = re.compile(r"[^\s\"&'/:<>@\x00-\x1f\x7f]{1,1023}")
_DOMAIN = re.compile(r"[^\s/@\x00-\x1f\x7f\"&'<>]{1,1023}")


def bare_jid(jid: str) -> str:
    """Return the address without its resource."""
    return jid.partition("/")[0]


def resource(jid: str) -> str:
    """Return the part of an address after the first slash: in a room, the nick."""
    return jid.partition("/")[2]


def domain(jid: str) -> str:
    return bare_jid(jid).rpartition("@")[2]


def local_part(jid: str) -> str:
    return bare_jid(jid).rpartition("@")[0]


def normalize_jid(jid: str, what: str) -> str:
    """Normalize a bare address from the configuration. Raises ValueError, whose text names the setting `what`."""
    name, at, host = unicodedata.normalize("NFC", jid.strip()).casefold().partition("@")
    if not at or not _LOCAL.fullmatch(name) or not _DOMAIN.fullmatch(host):
        raise ValueError(f"{what} is {jid!r}; it should read like name@example.org")
    return f"{name}@{host}"
