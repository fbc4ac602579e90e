"""Parse delivery status notifications (RFC 3464) about our own mails."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from email.message import Message
from typing import Any

from semel.channels.email.address import OwnMessageId, parse_own_message_id
from semel.channels.email.parse_headers import Mail, decode_words, find_message_ids, header_value, normalize_address

_ACTIONS = ("failed", "delayed", "delivered", "relayed", "expanded")


@dataclass(frozen=True)
class Bounce:
    """The delivery status of our mail `id` for `recipient` ("" if the notification names none)."""

    id: str
    own_id: OwnMessageId
    recipient: str
    action: str  # failed, delayed, delivered, relayed or expanded
    final: bool  # delivery to the intended recipient has failed for good
    status: str  # such as 5.1.1
    diagnostic: str

    def describe_reason(self) -> str:
        """Describe why the delivery failed, for people."""
        reason = (
            " ".join(piece for piece in (self.status, self.diagnostic) if piece) or "the mail server does not say why"
        )
        return f"{self.recipient}: {reason}" if self.recipient else reason

    def describe(self) -> str:
        """Describe the whole notification in one sentence, for people."""
        recipient = f" to {self.recipient}" if self.recipient else ""
        outcome = {
            "failed": f"This mail could not be delivered{recipient}",
            "delayed": f"This mail was not delivered{recipient} yet; the mail server keeps trying",
        }.get(self.action, f"This mail was {self.action}{recipient}")
        reason = " ".join(piece for piece in (self.status, self.diagnostic) if piece)
        return f"{outcome}: {reason}" if reason else f"{outcome}."


def parse_bounce(mail: Mail, domain: str, own_addresses: Collection[str] = ()) -> Bounce | None:
    """Parse a notification. Returns None if the mail is no notification, or not about a mail of ours.

    `own_addresses` are our own addresses, to which copies are sent: a failed copy is not a failed delivery.
    """
    if mail.get_content_type() != "multipart/report":
        return None
    parts = _parts(mail)
    original = _find_original(mail, parts, domain)
    report = next((part for part in parts if part.get_content_type() == "message/delivery-status"), None)
    if original is None or report is None:
        return None
    fields = _recipient_fields(report, own_addresses)
    action, status = fields.get("action", "").lower(), fields.get("status", "").split(" ")[0][:20]
    recipient = _recipient(fields)
    failed = action == "failed" or (action not in _ACTIONS and status.startswith("5"))
    return Bounce(
        id=original[0],
        own_id=original[1],
        recipient=recipient,
        action=action if action in _ACTIONS else "failed",
        final=failed and normalize_address(recipient) not in own_addresses,
        status=status,
        diagnostic=_strip_type(fields.get("diagnostic-code", ""))[:300],
    )


def _parts(mail: Mail) -> list[Mail]:
    payload: Any = mail.get_payload()
    return [part for part in payload if isinstance(part, Message)][:20] if isinstance(payload, list) else []


def _find_original(mail: Mail, parts: list[Mail], domain: str) -> tuple[str, OwnMessageId] | None:
    """Find the mail of ours that the notification is about: by the attached headers, else by the mail it answers.

    Returns (its Message-ID, the same parsed), or None.
    """
    message_ids: list[str] = []
    for part in parts:
        if part.get_content_type() == "message/rfc822":
            message_ids += [
                message_id
                for inner in _parts(part)
                for message_id in find_message_ids(header_value(inner, "message-id"))
            ]
        elif part.get_content_type() == "text/rfc822-headers":
            payload = part.get_payload(decode=True)
            head = payload if isinstance(payload, bytes) else b""
            message_ids += re.findall(r"(?im)^message-id:\s*(<[^<>\s]+>)", head[:100_000].decode("utf-8", "replace"))
    message_ids += [
        *find_message_ids(header_value(mail, "in-reply-to")),
        *find_message_ids(header_value(mail, "references")),
    ]
    return next(((id, own_id) for id in message_ids if (own_id := parse_own_message_id(id, domain))), None)


def _recipient_fields(report: Mail, own_addresses: Collection[str]) -> dict[str, str]:
    """Return the status fields of one recipient: if possible, not one of our own addresses, and one that failed.

    A report has one group of fields per recipient; the email package parses each as a message with headers only.
    """
    groups = [fields for group in _parts(report) if (fields := _read_fields(group))]
    groups.sort(
        key=lambda of: (normalize_address(_recipient(of)) in own_addresses, of.get("action", "").lower() != "failed")
    )
    return groups[0] if groups else {}


def _read_fields(group: Mail) -> dict[str, str]:
    names = ("final-recipient", "original-recipient", "action", "status", "diagnostic-code")
    return {name: decode_words(value) for name in names if (value := header_value(group, name))}


def _recipient(fields: dict[str, str]) -> str:
    return _strip_type(fields.get("final-recipient") or fields.get("original-recipient", ""))


def _strip_type(value: str) -> str:
    """Return a field's value without its type, which is `rfc822` in `rfc822; ada@example.org`."""
    return value.partition(";")[2].strip() if ";" in value else value.strip()
