"""WhatsApp: a business phone number, over Meta's Cloud API. See docs/whatsapp.md.

    settings         the keys of `[channels.NAME]`
    channel          the channel port: run, send, typing, receive, knows_token
    transport        one call of the Graph API, and the download and upload of a file
    account          who the number is, and whether the token may use it
    address          addresses and message ids
    windows          to whom Meta lets a business write freely, and until when; the cursor

    webhook          check the signature of a request
    receive          put what a request holds, answer it after the commit
    parse            the messages and statuses of a request
    message_content  what a message holds besides its text
    downloads        received files

    send             an `Op` as a call
    statuses         status reports: late receipts of messages whose answer was lost
    receipts         what the answer to a call means
    render           Markdown as WhatsApp shows it

Source: Meta's documentation (https://developers.facebook.com/documentation/business-messaging/whatsapp).
"""

from __future__ import annotations

from semel.channels.whatsapp.settings import WhatsAppSettings
from semel.gateway.ports import Channel

__all__ = ["WhatsAppSettings", "make"]


def make(name: str, settings: WhatsAppSettings) -> Channel:
    """Create the channel. Its modules are imported here, so that a gateway without WhatsApp does not load them."""
    from semel.channels.whatsapp.channel import WhatsAppChannel

    return WhatsAppChannel(name, settings)
