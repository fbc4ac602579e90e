"""Email: one account, heard by IMAP, spoken from by SMTP (docs/email.md).

The way in: `watch` reads the mailbox, `letter` makes facts of each mail (`headers`, `mime`, `html_in`, `quotes`,
`trust`, `automatic`, `bounce`). The way out: `compose` makes the mail (`dress`), `smtp` hands it over once. `threads`
says which conversation a mail belongs to, `line` keeps a blocking library off the event loop.
"""

from __future__ import annotations

from importlib.util import find_spec

from semel.channels.email.settings import EmailSettings
from semel.gateway.ports import Channel

__all__ = ["EmailSettings", "make"]


def make(name: str, settings: EmailSettings) -> Channel:
    """The channel. Raises ValueError where its libraries are not installed."""
    if find_spec("aiosmtplib") is None or find_spec("imap_tools") is None:
        raise ValueError("email needs two more packages: pip install 'semel[email]'")
    from semel.channels.email.channel import EmailChannel

    return EmailChannel(name, settings)
