"""Parse delivery status notifications (RFC 3464) about our own mails."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from email.message import Message
from typing import Any

from semel.channels.email.address import Ours, parse_own_message_id
from semel.channels.email.parse_headers import Mail, decoded, ids, line, normalize_address

_ACTIONS = ("failed", "delayed", "delivered", "relayed", "expanded")


@dataclass(frozen=True)
class Bounce:
    """The delivery status of our mail `id` for `recipient` ("" if the notification names none)."""

    id: str
    about: Ours
    recipient: str
    action: str  # failed, delayed, delivered, relayed or expanded
    final: bool  # delivery to the intended recipient has failed for good
    status: str  # such as 5.1.1
    why: str

    def reason(self) -> str:
        """Why the delivery failed, for people."""
        why = " ".join(each for each in (self.status, self.why) if each) or "the mail server does not say why"
        return f"{self.recipient}: {why}" if self.recipient else why

    def text(self) -> str:
        """The whole notification in one sentence, for people."""
        to = f" to {self.recipient}" if self.recipient else ""
        said = {
            "failed": f"This mail could not be delivered{to}",
            "delayed": f"This mail was not delivered{to} yet; the mail server keeps trying",
        }.get(self.action, f"This mail was {self.action}{to}")
        why = " ".join(each for each in (self.status, self.why) if each)
        return f"{said}: {why}" if why else f"{said}."


def bounce(mail: Mail, domain: str, own: Collection[str] = ()) -> Bounce | None:
    """Parse a notification. `None` if the mail is not one, or not about a mail of ours.

    `own` are our own addresses, to which copies are sent: a failed copy is not a failed delivery.
    """
    if mail.get_content_type() != "multipart/report":
        return None
    parts = _parts(mail)
    known = _original(mail, parts, domain)
    report = next((part for part in parts if part.get_content_type() == "message/delivery-status"), None)
    if known is None or report is None:
        return None
    fields = _of_recipient(report, own)
    told, status = fields.get("action", "").lower(), fields.get("status", "").split(" ")[0][:20]
    recipient = _recipient(fields)
    failed = told == "failed" or (told not in _ACTIONS and status.startswith("5"))
    return Bounce(
        id=known[0],
        about=known[1],
        recipient=recipient,
        action=told if told in _ACTIONS else "failed",
        final=failed and normalize_address(recipient) not in own,
        status=status,
        why=_address(fields.get("diagnostic-code", ""))[:300],
    )


def _parts(mail: Mail) -> list[Mail]:
    payload: Any = mail.get_payload()
    return [part for part in payload if isinstance(part, Message)][:20] if isinstance(payload, list) else []


def _original(mail: Mail, parts: list[Mail], domain: str) -> tuple[str, Ours] | None:
    """The mail of ours that the notification is about: by the attached headers, else by the mail it answers."""
    told: list[str] = []
    for part in parts:
        if part.get_content_type() == "message/rfc822":
            told += [found for inner in _parts(part) for found in ids(line(inner, "message-id"))]
        elif part.get_content_type() == "text/rfc822-headers":
            payload = part.get_payload(decode=True)
            head = payload if isinstance(payload, bytes) else b""
            told += re.findall(r"(?im)^message-id:\s*(<[^<>\s]+>)", head[:100_000].decode("utf-8", "replace"))
    told += [*ids(line(mail, "in-reply-to")), *ids(line(mail, "references"))]
    return next(((id, known) for id in told if (known := parse_own_message_id(id, domain))), None)


def _of_recipient(report: Mail, own: Collection[str]) -> dict[str, str]:
    """The status fields of one recipient: preferably not of our own copy, and of a failed delivery.

    A report has one group of fields per recipient; the email package parses each as a message with headers only.
    """
    groups = [found for group in _parts(report) if (found := _fields(group))]
    groups.sort(key=lambda of: (normalize_address(_recipient(of)) in own, of.get("action", "").lower() != "failed"))
    return groups[0] if groups else {}


def _fields(group: Mail) -> dict[str, str]:
    names = ("final-recipient", "original-recipient", "action", "status", "diagnostic-code")
    return {name: decoded(value) for name in names if (value := line(group, name))}


def _recipient(fields: dict[str, str]) -> str:
    return _address(fields.get("final-recipient") or fields.get("original-recipient", ""))


def _address(value: str) -> str:
    """A field's value without its type prefix, as in `rfc822; ada@example.org` or `smtp; 550 no such user`."""
    return value.partition(";")[2].strip() if ";" in value else value.strip()
