"""Conversation addresses of mails, and the Message-IDs of our own mails.

An address is `ada@example.org` (a new mail to her) or `ada@example.org:thread-1f0c9a1e52d4b687` (a mail thread with
her, named by the hash of its first Message-ID). Each participant of a thread has their own address, and so their own
session.

Our own Message-IDs contain the thread:

    <semel.KEY@example.org>            a new mail to ada@example.org
    <semel.KEY.1f0c9a1e52d4b687@...>   a mail in that thread

An answer can therefore be assigned to its thread by its References alone, even after a restart or with an emptied
mailbox. KEY is the key of the outgoing part: random, unguessable, the same on every retry. By the key we recognize
copies of our own mails, and find a mail if the server's answer to it was lost.
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
    """Parse an address. Returns None if it is not a mail address."""
    match = _ADDRESS.fullmatch(address)
    return MailPlace(match[1], match[2]) if match else None


def format_address(sender: str, thread: str | None) -> str:
    """Return the address of a conversation with `sender`."""
    return f"{sender}:thread-{thread}" if thread else sender


def message_id(key: str, place: MailPlace, domain: str) -> str:
    """Return the Message-ID of the part with this `key`. A key with characters that an id cannot hold is hashed.

    `domain`: the domain of our own address.
    """
    key = key if re.fullmatch(r"[A-Za-z0-9_-]{1,200}", key) else hash_id(key)
    return f"<semel.{key}{'.' + place.thread if place.thread else ''}@{domain}>"


def parse_own_message_id(id: str, domain: str) -> OwnMessageId | None:
    """Parse the Message-ID of one of our mails. Returns None if the mail is not ours.

    `domain`: the domain of our own address.
    """
    match = _OURS.fullmatch(id)
    if not match or match[3].lower() != domain:
        return None
    return OwnMessageId(match[1], match[2].lower() if match[2] else None)


def find_thread(id: str, references: Sequence[str], domain: str) -> str | None:
    """Return the thread of the mail with the Message-ID `id`; None if it answers a mail of ours that has no thread.

    `references`: the Message-IDs that the mail refers to, oldest first. If some are ours, the newest of these names the
    thread. Else the thread is the hash of the oldest reference or, if there is none, of `id`.
    """
    for reference in reversed(references):
        if ours := parse_own_message_id(reference, domain):
            return ours.thread
    return hash_id(references[0] if references else id)


def hash_id(id: str) -> str:
    """Return the first 16 hex digits of the id's SHA-256 hash."""
    return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:16]
