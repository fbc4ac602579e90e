"""Recognize mail that no person wrote: automatic replies, mailing lists, newsletters (RFC 3834).

Such mail does not wake the agent (Law 2); otherwise two programs could answer each other endlessly.
"""

from __future__ import annotations

from semel.channels.email.parse_headers import Mail, line, lines

_PRECEDENCE = ("bulk", "junk", "list", "auto_reply", "auto-reply")
_MARKS = ("list-id", "list-unsubscribe", "x-autoreply", "x-autorespond", "x-autorespond-to", "x-loop", "feedback-id")
_NAMES = ("mailer-daemon", "postmaster", "noreply", "no-reply", "donotreply", "do-not-reply", "bounce", "bounces")


def automatic(mail: Mail, sender: str) -> str | None:
    """The header that shows that a program sent the mail, or None if a person seems to have written it."""
    told = line(mail, "auto-submitted").lower().split(";")[0].strip()
    if told and told != "no":
        return f"Auto-Submitted: {told[:60]}"
    precedence = line(mail, "precedence").lower()
    if precedence in _PRECEDENCE:
        return f"Precedence: {precedence}"
    for name in _MARKS:
        if lines(mail, name):
            return name.title()
    if lines(mail, "return-path") and line(mail, "return-path") == "<>":
        return "Return-Path: <>"
    if sender.partition("@")[0] in _NAMES:
        return f"From: {sender}"
    return None
