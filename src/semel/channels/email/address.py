"""Which conversation a mail belongs to, and what we call our own mails.

An address is `ada@example.org`, a new mail to her, or `ada@example.org:thread-1f0c9a1e52d4b687`, a mail thread with
her: the hash of the Message-ID that began it. Each person of a thread has an address, and so a session, of their own.

Our own Message-IDs say which conversation they belong to:

    <semel.KEY@example.org>            said to ada@example.org
    <semel.KEY.1f0c9a1e52d4b687@...>   said into that thread

so that an answer finds its way home by its References alone, after a restart, and whatever mailbox was emptied. KEY is
the part's own: random, unguessable, the same on every retry. It is also how a copy of our own mail is known, and how a
mail is looked for after its answer was lost.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

UNVERIFIED = "unverified:"
"""Begins the id, and the address, of a sender that our server could not verify: it is nobody that anybody knows."""

_OURS = re.compile(r"<semel\.([A-Za-z0-9_-]{1,200})(?:\.([0-9a-f]{16}))?@([^<>@\s]+)>", re.IGNORECASE)
_ADDRESS = re.compile(rf"(?:{UNVERIFIED})?([^\s<>,;:\"()]+@[^\s<>,;:\"()@]+)(?::thread-([0-9a-f]{{16}}))?")


@dataclass(frozen=True)
class Place:
    """An address taken apart. `thread` is None for a new mail."""

    recipient: str
    thread: str | None = None


@dataclass(frozen=True)
class Ours:
    """A Message-ID of ours taken apart."""

    key: str
    thread: str | None


def place(address: str) -> Place | None:
    """None: it is no mail address."""
    found = _ADDRESS.fullmatch(address)
    return Place(found[1], found[2]) if found else None


def address(sender: str, thread: str | None) -> str:
    """The address of a conversation with `sender`."""
    return f"{sender}:thread-{thread}" if thread else sender


def message_id(key: str, to: Place, domain: str) -> str:
    """Ours for the part of that key; a key with other letters than a Message-ID may have is hashed."""
    key = key if re.fullmatch(r"[A-Za-z0-9_-]{1,200}", key) else hashed(key)
    return f"<semel.{key}{'.' + to.thread if to.thread else ''}@{domain}>"


def ours(id: str, domain: str) -> Ours | None:
    """None: it is not one of ours."""
    found = _OURS.fullmatch(id)
    if not found or found[3].lower() != domain:
        return None
    return Ours(found[1], found[2].lower() if found[2] else None)


def conversation(id: str, references: Sequence[str], domain: str) -> str | None:
    """The thread that a mail belongs to: the newest of ours that it refers to says so, else its oldest reference.

    `references` are oldest first; `id` is its own. None: it answers a mail of ours that was said into no thread.
    """
    for each in reversed(references):
        if known := ours(each, domain):
            return known.thread
    return hashed(references[0] if references else id)


def hashed(id: str) -> str:
    """16 hex digits."""
    return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:16]
