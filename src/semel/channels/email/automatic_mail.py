"""Mail that no person wrote: answers of machines, lists, newsletters. It does not wake (Law 2), or two programs would
write to each other for ever (RFC 3834)."""

from __future__ import annotations

from semel.channels.email.parse_headers import Mail, line, lines

_PRECEDENCE = ("bulk", "junk", "list", "auto_reply", "auto-reply")
_MARKS = ("list-id", "list-unsubscribe", "x-autoreply", "x-autorespond", "x-autorespond-to", "x-loop", "feedback-id")
_NAMES = ("mailer-daemon", "postmaster", "noreply", "no-reply", "donotreply", "do-not-reply", "bounce", "bounces")


def automatic(mail: Mail, sender: str) -> str | None:
    """How it says that a program sent it; None: a person wrote it, as far as can be told."""
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
