"""The email channel: one account, read by IMAP, sent from by SMTP (docs/email.md).

Incoming: `receive` reads the mailbox, with `imap_queries` over `transport`, which keeps the blocking IMAP library off
the event loop. `parse` turns each mail into a record, with the help of `parse_headers`, `parse_body`,
`quoted_text`, `sender_trust` and `parse_bounce`. Outgoing: `compose` writes the mail (`render` makes its HTML) and
`send` hands it to the SMTP server once. `address` maps mails to conversations.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec

from semel.channels.email.settings import EmailSettings
from semel.gateway.ports import Channel
from semel.installation import find_install_command

__all__ = ["EmailSettings", "find_missing_packages", "make"]


def find_missing_packages(settings: Collection[str] = ()) -> str:
    """Return what has to be installed first, for people; "" if nothing is missing."""
    if find_spec("aiosmtplib") is None or find_spec("imap_tools") is None:
        return f"email needs two more packages: {find_install_command('email')}"
    return ""


def make(name: str, settings: EmailSettings) -> Channel:
    """Create the channel. Raises ValueError if its libraries are not installed."""
    if missing := find_missing_packages():
        raise ValueError(missing)
    from semel.channels.email.channel import EmailChannel

    return EmailChannel(name, settings)
