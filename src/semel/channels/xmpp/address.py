"""Addresses (RFC 7622), as far as they are compared here: `local@domain/resource`.

A server gives them in their normal form; only what people write in the configuration is put into it here.
"""

from __future__ import annotations

import re
import unicodedata

_LOCAL = re.compile(r"[^\s\"&'/:<>@\x00-\x1f\x7f]{1,1023}")
_DOMAIN = re.compile(r"[^\s/@\x00-\x1f\x7f\"&'<>]{1,1023}")


def bare(jid: str) -> str:
    """Without its resource."""
    return jid.partition("/")[0]


def resource(jid: str) -> str:
    """What stands behind the first slash: in a room, the nick."""
    return jid.partition("/")[2]


def domain(jid: str) -> str:
    return bare(jid).rpartition("@")[2]


def local(jid: str) -> str:
    return bare(jid).rpartition("@")[0]


def normal(jid: str, what: str) -> str:
    """A bare address as a person wrote it, in its normal form. Raises ValueError, which names `what`."""
    name, at, host = unicodedata.normalize("NFC", jid.strip()).casefold().partition("@")
    if not at or not _LOCAL.fullmatch(name) or not _DOMAIN.fullmatch(host):
        raise ValueError(f"{what} is {jid!r}; it should read like name@example.org")
    return f"{name}@{host}"
