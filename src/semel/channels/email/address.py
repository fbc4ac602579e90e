"""Conversation addresses of mails, and the Message-IDs of our own mails.

An address is `ada@example.org` (a new mail to her) or `ada@example.org:thread-1f0c9a1e52d4b687` (a mail thread with
her, named by the hash of its first Message-ID). Each participant of a thread has their own address, and so their own
session.

Our own Message-IDs contain the thread:

    <semel.KEY@example.org>            a new mail to ada@example.org
    <semel.KEY.1f0c9a1e52d4b687@...>   a mail in that thread

An answer can therefore be assigned to its thread by its References alone, even after a restart or with an emptied
mailbox. KEY is the key of the outgoing part: random, unguessable, the same on every retry. It identifies the copies of
our own mails, and a mail is searched for by it if the server's answer was lost.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

UNVERIFIED = "unverified:"
"""Prefix of the id and address of an unverified sender, so that a forged From line never matches a known person."""

_OURS = re.compile(r"<semel\.([A-Za-z0-9_-]{1,200})(?:\.([0-9a-f]{16}))?@([^<>@\s]+)>", re.IGNORECASE)
_ADDRESS = re.compile(rf"(?:{UNVERIFIED})?([^\s<>,;:\"()]+@[^\s<>,;:\"()@]+)(?::thread-([0-9a-f]{{16}}))?")


@dataclass(frozen=True)
class MailPlace:
    """A parsed conversation address. Without a `thread`, it stands for a new mail to the recipient."""

    recipient: str
    thread: str | None = None


@dataclass(frozen=True)
class OwnMessageId:
    """A parsed Message-ID of one of our mails."""

    key: str
    thread: str | None


def parse_address(address: str) -> MailPlace | None:
    """Parse an address. `None` if it is not a mail address."""
    match = _ADDRESS.fullmatch(address)
    return MailPlace(match[1], match[2]) if match else None


def format_address(sender: str, thread: str | None) -> str:
    """The address of a conversation with `sender`."""
    return f"{sender}:thread-{thread}" if thread else sender


def message_id(key: str, place: MailPlace, domain: str) -> str:
    """The Message-ID of the part with this key. A key with characters that a Message-ID cannot hold is hashed."""
    key = key if re.fullmatch(r"[A-Za-z0-9_-]{1,200}", key) else hash_id(key)
    return f"<semel.{key}{'.' + place.thread if place.thread else ''}@{domain}>"


def parse_own_message_id(id: str, domain: str) -> OwnMessageId | None:
    """Parse a Message-ID of ours. `None` if the mail with this id is not ours."""
    match = _OURS.fullmatch(id)
    if not match or match[3].lower() != domain:
        return None
    return OwnMessageId(match[1], match[2].lower() if match[2] else None)


def find_thread(id: str, references: Sequence[str], domain: str) -> str | None:
    """The thread that a mail belongs to, or None if it answers a mail of ours that was in no thread.

    If the mail refers to mails of ours, it is the thread of the newest of them, else the hash of the mail's oldest
    reference or, without any, of its own id. `references` are oldest first; `id` is the mail's Message-ID.
    """
    for reference in reversed(references):
        if ours := parse_own_message_id(reference, domain):
            return ours.thread
    return hash_id(references[0] if references else id)


def hash_id(id: str) -> str:
    """The first 16 hex digits of the id's SHA-256 hash."""
    return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:16]
