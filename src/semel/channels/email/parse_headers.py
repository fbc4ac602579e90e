"""Read the headers of a mail from an untrusted sender.

Nothing here raises: a malformed header is read as far as possible. Values are single lines without control characters.
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

MAX_HEADER_CHARS = 20_000
"""Characters of one header that are read; the rest is ignored."""

Mail = Message

_NO_CHARSETS = frozenset(("punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined"))
"""Python codecs that are no charsets of mail; decoding 4 MB of punycode takes half an hour."""
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_ID = re.compile(r"<([^<>\s]{1,600})>")
_PLAIN = re.compile(r"[^<>\s,;:\"()\[\]\\@]+@[^<>\s,;:\"()\[\]\\@]+")
_NAMED = re.compile(r"(?P<name>(?:\"(?:[^\"\\]|\\.){0,500}\"|[^\"<>@,;:]){0,200})<\s*(?P<address>[^<>]{3,320}?)\s*>\s*")


@dataclass(frozen=True)
class Mailbox:
    """A mail address in normal form (for comparison), and its display name.

    `is_unambiguous`: the header consists of exactly this address, in a plain form that all mail programs parse alike.
    """

    address: str
    name: str = ""
    is_unambiguous: bool = False


def header_values(mail: Mail, name: str) -> list[str]:
    """Return the values of all headers with this name, undecoded, each on one line."""
    values = [str(value) for key, value in mail._headers if key.lower() == name.lower()]  # type: ignore[attr-defined]
    return [
        _ODD.sub(" ", value[:MAX_HEADER_CHARS].encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        for value in values
    ]


def header_value(mail: Mail, name: str) -> str:
    """Return the value of the first header with this name; "" if there is none."""
    return next(iter(header_values(mail, name)), "").strip()


def decode_header_text(mail: Mail, name: str) -> str:
    """Return the value of the first header with this name, encoded words decoded (RFC 2047)."""
    return decode_words(header_value(mail, name))


def decode_words(value: str) -> str:
    """Decode the encoded words of a header value (RFC 2047). Returns the text on one line."""
    try:
        pieces = decode_header(value)
    except Exception:  # a malformed encoded word: shown as it came
        pieces = [(value, None)]
    text = "".join(piece if isinstance(piece, str) else decode_bytes(piece, charset) for piece, charset in pieces)
    return " ".join(_ODD.sub(" ", text).split())


def decode_bytes(content: bytes, charset: str | None) -> str:
    """Decode bytes by the declared charset, else as UTF-8, else as cp1252. Never raises."""
    for name in (charset, "utf-8"):
        try:
            if name and codecs.lookup(name).name not in _NO_CHARSETS:
                return content.decode(name)
        except (LookupError, ValueError):
            continue
    return content.decode("cp1252", "replace")


def find_message_ids(value: str) -> list[str]:
    """Return the message ids in a header, with their angle brackets, in order."""
    return [f"<{id}>" for id in _ID.findall(value)]


def parse_sender(mail: Mail) -> Mailbox | None:
    """Return the author according to the From header; None if the header names no address."""
    values = header_values(mail, "from")
    value = values[0].strip() if values else ""
    address, name = value, ""
    if match := _NAMED.fullmatch(value):
        address, name = match["address"], decode_words(_unquote(match["name"].strip()))
    if _PLAIN.fullmatch(address):
        return Mailbox(normalize_address(address), name, is_unambiguous=len(values) == 1)
    candidates = parse_mailboxes(values)
    return candidates[0] if candidates else None


def parse_mailboxes(values: Iterable[str]) -> list[Mailbox]:
    """Return all addresses in these header values; what cannot be parsed is left out."""
    try:
        pairs = getaddresses([value for value in values if value])[:1000]
    except Exception:  # the standard library's parser gives up in many ways
        return []
    return [
        Mailbox(normalize_address(address), decode_words(name))
        for name, address in pairs
        if "@" in address and _PLAIN.fullmatch(address)
    ]


def normalize_address(address: str) -> str:
    """Return an address in normal form, for comparison: in lower case, with an ASCII domain (RFC 5890)."""
    local, _, domain = address.strip().rpartition("@")
    try:
        domain = domain.encode("idna").decode("ascii")
    except UnicodeError:
        pass
    return f"{local}@{domain}".lower()


def parse_date(value: str) -> float | None:
    """Parse a Date header to seconds since the epoch; None if it is malformed or before 1980."""
    try:
        moment = parsedate_to_datetime(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.timestamp() if moment > datetime(1980, 1, 1, tzinfo=UTC) else None
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _unquote(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if len(name) > 1 and name[0] == name[-1] == '"' else name
