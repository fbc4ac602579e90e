"""Mails to test with, as they lie in a mailbox."""

from __future__ import annotations

from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

from semel.channels.email import EmailSettings
from semel.channels.email.parse import ParsedMail, parse_mail

PASSED = "mx.example.org; dmarc=pass header.from=people.org"


def settings(**more: Any) -> EmailSettings:
    """Of semel@example.org, whose server calls itself mx.example.org."""
    usual: dict[str, Any] = {
        "address": "semel@example.org",
        "imap": "localhost",
        "smtp": "localhost",
        "password": "a secret",
        "authserv": "mx.example.org",
    }
    return EmailSettings(**(usual | more))


def mail(text: str = "Hello", **headers: str | None) -> EmailMessage:
    """From Ada, verified, to us; `headers` overrule that, "_" stands for "-", None leaves one out."""
    told: dict[str, str | None] = {
        "Authentication-Results": PASSED,
        "From": "Ada Lovelace <ada@people.org>",
        "To": "semel@example.org",
        "Subject": "Engines",
        "Message-ID": "<1@people.org>",
        "Date": "Sat, 21 Nov 2026 10:00:00 +0000",
    }
    told |= {name.replace("_", "-").title().replace("-Id", "-ID"): value for name, value in headers.items()}
    one = EmailMessage(policy=SMTP)
    for name, value in told.items():
        if value is not None:
            one[name] = value
    one.set_content(text)
    return one


def heard(one: EmailMessage | bytes, **more: Any) -> ParsedMail:
    """What is told of it."""
    return parse_mail(one if isinstance(one, bytes) else bytes(one), settings(**more))


def raw(headers: str, body: bytes = b"") -> bytes:
    """A mail by its bytes: the ordinary headers, these, and the body."""
    usual = f"Authentication-Results: {PASSED}\nFrom: Ada <ada@people.org>\nTo: semel@example.org\n"
    usual += "Message-ID: <1@people.org>\n"
    return (usual + headers.strip("\n") + "\n\n").replace("\n", "\r\n").encode("latin-1") + body
