"""IMAP commands as blocking functions, which run in the connection's worker thread. They raise the libraries' errors.

No function moves or deletes a mail, and only `mark_seen` marks mails as read. (imap-tools' `flag` and `delete` are not
used, because they would expunge mails that people had marked as deleted.)
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from imaplib import Internaldate2tuple
from typing import Any

from semel.channels.email.transport import ImapConnection, MailBox

_UID = re.compile(rb"\bUID (\d+)")
_SIZE = re.compile(rb"\bRFC822\.SIZE (\d+)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_COPY_MAILBOX_USES = ("\\all", "\\sent", "\\junk", "\\archive", "\\trash")
"""Special uses (RFC 6154) of the mailboxes that may hold the copy of a mail we sent."""
_EXISTS_RESPONSE = "EXISTS"
"""Untagged response that a server may add to any answer when the number of mails has changed (RFC 3501, 7.3.1)."""
_HEADERS = "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID REFERENCES IN-REPLY-TO SUBJECT)]"


@dataclass(frozen=True)
class SelectedMailbox:
    """A selected mailbox: its UIDVALIDITY, and in `next_uid` the UID of its next mail (UIDNEXT)."""

    uidvalidity: int
    next_uid: int


@dataclass(frozen=True)
class StoredMail:
    """A mail in the mailbox. `size` is in bytes, `at` its INTERNALDATE in seconds since the epoch (0.0 if unknown)."""

    uid: int
    size: int
    at: float


def open_mailbox(box: MailBox, name: str, writes: bool) -> SelectedMailbox:
    """Select a mailbox, read-only unless `writes`, and return its numbers."""
    box.folder.set(name, readonly=not writes)
    validity = _response_number(box, "UIDVALIDITY")
    next_uid = _response_number(box, "UIDNEXT")
    if not next_uid:
        uids = [int(uid) for uid in box.uids("ALL", None)]
        next_uid = max(uids, default=0) + 1
    return SelectedMailbox(validity, next_uid)


def _response_number(box: MailBox, name: str) -> int:
    _, values = box.client.response(name)
    value = values[-1] if values else None
    return int(value) if isinstance(value, bytes) and value.isdigit() else 0


def list_uids_after(box: MailBox, uid: int, renumbered_below: int, since: float) -> list[int]:
    """Return the UIDs of the mails after `uid` in the selected mailbox, lowest first.

    If the server has renumbered the mailbox (a new UIDVALIDITY), all of its mails come again under new UIDs, which are
    below `renumbered_below` (0 if that never happened). Of these, only mails received since the day before `since` are
    listed. `since`: when this account was first read, in seconds since the epoch; older mail is not reported.
    """
    box.client.untagged_responses.pop(
        _EXISTS_RESPONSE, None
    )  # an EXISTS from here on may announce a mail that this search misses
    uids: set[int] = set()
    if uid + 1 < renumbered_below:
        criteria = f"UID {uid + 1}:{renumbered_below - 1} SINCE {format_day(since - 86400)}"
        uids.update(number for number in map(int, box.uids(criteria, None)) if uid < number < renumbered_below)
    first = max(uid + 1, renumbered_below)
    uids.update(number for number in map(int, box.uids(f"UID {first}:*", None)) if number >= first)
    return sorted(uids)


def list_stored_mails(box: MailBox, uids: Sequence[int]) -> list[StoredMail]:
    """Return the size and date of each mail with one of these UIDs that still exists, lowest UID first."""
    if not uids:
        return []
    mails: dict[int, StoredMail] = {}
    for item in _fetch(box, ",".join(map(str, uids)), "(UID RFC822.SIZE INTERNALDATE)"):
        text = item if isinstance(item, bytes) else item[0]
        uid, size = _UID.search(text), _SIZE.search(text)
        if uid and size and int(uid[1]) in uids:
            received = Internaldate2tuple(text)
            at = float(time.mktime(received)) if received else 0.0
            mails[int(uid[1])] = StoredMail(int(uid[1]), int(size[1]), at)
    return [mails[uid] for uid in sorted(mails)]


def fetch_content(box: MailBox, uid: int, max_bytes: int) -> bytes | None:
    """Return the first `max_bytes` bytes of a mail, or None if it no longer exists."""
    for item in _fetch(box, str(uid), f"(UID BODY.PEEK[]<0.{max_bytes}>)"):
        if isinstance(item, tuple) and b"BODY[]" in item[0].upper():
            return bytes(item[1])
    return None


def mark_seen(box: MailBox, uids: Iterable[int]) -> None:
    if uid_set := ",".join(map(str, uids)):
        box.client.uid("STORE", uid_set, "+FLAGS.SILENT", "(\\Seen)")


def _fetch(box: MailBox, uids: str, fields: str) -> list[Any]:
    status, items = box.client.uid("FETCH", uids, fields)
    if status != "OK":
        raise box.client.error(items)
    return [item for item in items if item]


# ---------------------------------------------------------------- news


def wait_for_news(box: MailBox, line: ImapConnection, seconds: float) -> None:
    """Block until new mail may have arrived, for at most `seconds`. Uses IDLE (RFC 2177) if the server supports it."""
    if _EXISTS_RESPONSE in box.client.untagged_responses:  # announced in the answer to another command
        return
    if "IDLE" not in box.client.capabilities:
        line.wait(seconds)
        return
    tag = box.client._command("IDLE")
    has_news = False
    while box.client._get_response() is not None:  # notifications that came before the server's continuation
        has_news = True
        if box.client.tagged_commands[tag]:
            raise box.client.error(f"the server does not IDLE: {box.client.tagged_commands.pop(tag)!r}")
    if not has_news and not _has_read_ahead(box):
        line.wait(seconds)
    box.client.send(b"DONE\r\n")
    box.consume_until_tagged_response(tag)


def _has_read_ahead(box: MailBox) -> bool:
    """Whether a notification was read together with the server's IDLE continuation, where `poll()` cannot see it."""
    stream: Any = getattr(box.client, "_file", None) or box.client.file
    patience = box.client.sock.gettimeout()
    box.client.sock.settimeout(0)
    try:
        return bool(stream.peek(1))
    except OSError:  # TLS: no data to read
        return False
    finally:
        box.client.sock.settimeout(patience)


# ---------------------------------------------------------------- looking for a mail


def find_mail(box: MailBox, mailboxes: Sequence[str], id: str, since: float) -> str | None:
    """Return the name of the mailbox that holds the mail with this Message-ID, or None.

    Searches the given mailboxes and those with a special use of `_COPY_MAILBOX_USES`. `since`: when the mail was sent,
    in seconds since the epoch; mail received more than two days earlier is not searched. Raises if a mailbox cannot be
    searched, because None would then prove nothing.
    """
    for name in dict.fromkeys((*mailboxes, *find_special_mailboxes(box, _COPY_MAILBOX_USES))):
        box.folder.set(name, readonly=True)
        if box.uids(f'SINCE {format_day(since - 2 * 86400)} HEADER Message-ID "{id}"', None):
            return name
    return None


def find_special_mailboxes(box: MailBox, uses: Sequence[str]) -> list[str]:
    """Return the names of the mailboxes that the server marks with one of these special uses (RFC 6154)."""
    return [
        folder.name
        for folder in box.folder.list()
        if {flag.lower() for flag in folder.flags} & set(uses) and "\\noselect" not in map(str.lower, folder.flags)
    ]


def fetch_newest_headers(box: MailBox, mailbox: str, sender: str, max_mails: int) -> list[bytes]:
    """Return the threading headers of the newest `max_mails` mails from `sender`, newest first."""
    box.folder.set(mailbox, readonly=True)
    quoted = sender.replace("\\", "\\\\").replace('"', '\\"')
    uids = sorted((int(each) for each in box.uids(f'FROM "{quoted}"', None)), reverse=True)[:max_mails]
    if not uids:
        return []
    headers: dict[int, bytes] = {}
    for item in _fetch(box, ",".join(map(str, uids)), f"(UID {_HEADERS})"):
        if isinstance(item, tuple) and (uid := _UID.search(item[0])):
            headers[int(uid[1])] = bytes(item[1])
    return [headers[uid] for uid in sorted(headers, reverse=True)]


def format_day(at: float) -> str:
    """Format a time (seconds since the epoch) as a date for IMAP SEARCH (RFC 3501), in UTC, in any locale."""
    date = time.gmtime(max(0.0, at))
    return f"{date.tm_mday:02d}-{_MONTHS[date.tm_mon - 1]}-{date.tm_year}"
