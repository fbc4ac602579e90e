"""A mail that says what became of one of ours: a delivery status notification (RFC 3464)."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from email.message import Message
from typing import Any

from semel.channels.email.address import Ours, ours
from semel.channels.email.parse_headers import Mail, decoded, folded, ids, line

_ACTIONS = ("failed", "delayed", "delivered", "relayed", "expanded")


@dataclass(frozen=True)
class Bounce:
    """What became of our mail `id` for `recipient` ("" where it does not say)."""

    id: str
    about: Ours
    recipient: str
    action: str  # failed, delayed, delivered, relayed or expanded
    final: bool  # it says that our mail was not delivered to whom it was for, and will not be
    status: str  # such as 5.1.1
    why: str

    def reason(self) -> str:
        """Why it failed, for people."""
        why = " ".join(each for each in (self.status, self.why) if each) or "the mail server does not say why"
        return f"{self.recipient}: {why}" if self.recipient else why

    def text(self) -> str:
        """For people."""
        to = f" to {self.recipient}" if self.recipient else ""
        said = {
            "failed": f"This mail could not be delivered{to}",
            "delayed": f"This mail was not delivered{to} yet; the mail server keeps trying",
        }.get(self.action, f"This mail was {self.action}{to}")
        why = " ".join(each for each in (self.status, self.why) if each)
        return f"{said}: {why}" if why else f"{said}."


def bounce(mail: Mail, domain: str, own: Collection[str] = ()) -> Bounce | None:
    """None: it is no such notice, or not about a mail of ours. `own`: our addresses, which copies go to."""
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
        final=failed and folded(recipient) not in own,
        status=status,
        why=_address(fields.get("diagnostic-code", ""))[:300],
    )


def _parts(mail: Mail) -> list[Mail]:
    payload: Any = mail.get_payload()
    return [part for part in payload if isinstance(part, Message)][:20] if isinstance(payload, list) else []


def _original(mail: Mail, parts: list[Mail], domain: str) -> tuple[str, Ours] | None:
    """Which of our mails it is about: its headers come with it; else what the notice answers."""
    told: list[str] = []
    for part in parts:
        if part.get_content_type() == "message/rfc822":
            told += [found for inner in _parts(part) for found in ids(line(inner, "message-id"))]
        elif part.get_content_type() == "text/rfc822-headers":
            payload = part.get_payload(decode=True)
            head = payload if isinstance(payload, bytes) else b""
            told += re.findall(r"(?im)^message-id:\s*(<[^<>\s]+>)", head[:100_000].decode("utf-8", "replace"))
    told += [*ids(line(mail, "in-reply-to")), *ids(line(mail, "references"))]
    return next(((id, known) for id in told if (known := ours(id, domain))), None)


def _of_recipient(report: Mail, own: Collection[str]) -> dict[str, str]:
    """The fields of whom the mail was for: of one that is not us, and that it was not delivered to, if there is one.

    The groups of fields, one for each recipient, are messages of headers alone.
    """
    groups = [found for group in _parts(report) if (found := _fields(group))]
    groups.sort(key=lambda of: (folded(_recipient(of)) in own, of.get("action", "").lower() != "failed"))
    return groups[0] if groups else {}


def _fields(group: Mail) -> dict[str, str]:
    names = ("final-recipient", "original-recipient", "action", "status", "diagnostic-code")
    return {name: decoded(value) for name in names if (value := line(group, name))}


def _recipient(fields: dict[str, str]) -> str:
    return _address(fields.get("final-recipient") or fields.get("original-recipient", ""))


def _address(value: str) -> str:
    """Without its type: `rfc822; ada@example.org`, `smtp; 550 no such user`."""
    return value.partition(";")[2].strip() if ";" in value else value.strip()
