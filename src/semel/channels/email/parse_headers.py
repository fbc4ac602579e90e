"""The header lines of a mail, read with care: they were written by anybody.

A header that cannot be understood is read as far as it goes; nothing here raises. Values come out as one line,
without control characters.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime

MOST = 20_000
"""Characters of one header that are read."""

Mail = Message

_NO_CHARSETS = frozenset(("punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined"))
"""What Python takes for one besides: 4 MB of punycode keep it busy for half an hour."""
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_ID = re.compile(r"<([^<>\s]{1,600})>")
_PLAIN = re.compile(r"[^<>\s,;:\"()\[\]\\@]+@[^<>\s,;:\"()\[\]\\@]+")
_NAMED = re.compile(r"(?P<name>(?:\"(?:[^\"\\]|\\.){0,500}\"|[^\"<>@,;:]){0,200})<\s*(?P<address>[^<>]{3,320}?)\s*>\s*")


@dataclass(frozen=True)
class Mailbox:
    """An address as it is compared (lower case), and the name that stood beside it.

    `sure`: the header names exactly this one address, in the plain form that every reader reads the same way.
    """

    address: str
    name: str = ""
    sure: bool = False


def lines(mail: Mail, name: str) -> list[str]:
    """Each header of that name as it came, unfolded."""
    found = [str(value) for key, value in mail._headers if key.lower() == name.lower()]  # type: ignore[attr-defined]
    return [
        _ODD.sub(" ", value[:MOST].encode("utf-8", "surrogateescape").decode("utf-8", "replace")) for value in found
    ]


def line(mail: Mail, name: str) -> str:
    """The first of them; "" where there is none."""
    return next(iter(lines(mail, name)), "").strip()


def text(mail: Mail, name: str) -> str:
    """The first of them with its encoded words decoded (RFC 2047)."""
    return decoded(line(mail, name))


def decoded(value: str) -> str:
    """A header's value for people."""
    try:
        pieces = decode_header(value)
    except Exception:  # a malformed encoded word: shown as it came
        pieces = [(value, None)]
    whole = "".join(_piece(*piece) for piece in pieces)
    return " ".join(_ODD.sub(" ", whole).split())


def _piece(piece: str | bytes, charset: str | None) -> str:
    return piece if isinstance(piece, str) else to_text(piece, charset)


def to_text(content: bytes, charset: str | None) -> str:
    """Decoded as it says it is, or as it looks: never an error."""
    for name in (charset, "utf-8"):
        try:
            if name and codecs.lookup(name).name not in _NO_CHARSETS:
                return content.decode(name)
        except (LookupError, ValueError):
            continue
    return content.decode("cp1252", "replace")


def ids(value: str) -> list[str]:
    """The message ids in a header, with their angle brackets, in order."""
    return [f"<{found}>" for found in _ID.findall(value)]


def sender(mail: Mail) -> Mailbox | None:
    """Who it says it is from; None: it does not say."""
    found = lines(mail, "from")
    value = found[0].strip() if found else ""
    address, name = value, ""
    if named := _NAMED.fullmatch(value):
        address, name = named["address"], decoded(_unquoted(named["name"].strip()))
    if _PLAIN.fullmatch(address):
        return Mailbox(folded(address), name, sure=len(found) == 1)
    loose = mailboxes(found)
    return loose[0] if loose else None


def mailboxes(values: Iterable[str]) -> list[Mailbox]:
    """Every address in these headers, read generously."""
    try:
        pairs = getaddresses([value for value in values if value])[:1000]
    except Exception:  # the standard library's parser gives up in many ways
        return []
    return [
        Mailbox(folded(address), decoded(name))
        for name, address in pairs
        if "@" in address and _PLAIN.fullmatch(address)
    ]


def folded(address: str) -> str:
    """As it is compared: in lower case, its domain as in the DNS (RFC 5890)."""
    local, _, domain = address.strip().rpartition("@")
    try:
        domain = domain.encode("idna").decode("ascii")
    except UnicodeError:
        pass
    return f"{local}@{domain}".lower()


def date(value: str) -> float | None:
    """Seconds since the epoch."""
    try:
        when = parsedate_to_datetime(value)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return when.timestamp() if when > datetime(1980, 1, 1, tzinfo=UTC) else None
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if len(name) > 1 and name[0] == name[-1] == '"' else name
