"""Addresses of chats as other systems write them, in the form in which Semel's channels hear them.

| platform | there | here |
|---|---|---|
| WhatsApp | `+16505551234`, `16505551234@s.whatsapp.net`, `16505551234:3@s.whatsapp.net` | `16505551234` |
| | `ID@g.us` (a group of WhatsApp Web), `ID@lid` (a hidden number) | none: Meta's API has other ids for these |
| Signal | `uuid:ID`, `ID`, `+16505551234` | `ID`, `+16505551234` |
| | `group:ID` | `group:ID` |

Other platforms' addresses are the same here.
"""

from __future__ import annotations

import re

from semel.channels.signal import address as signal
from semel.channels.whatsapp import address as whatsapp

PLATFORMS = {"whatsapp_cloud": "whatsapp", "whatsapp-cloud": "whatsapp"}
"""Names of platforms that are not the name of a kind of channel."""
WITHOUT_THREADS = frozenset({"signal", "whatsapp"})
_PHONE = re.compile(r"\+?([0-9]{5,20})(?::[0-9]{1,5})?(?:@(?:s\.whatsapp\.net|c\.us))?")


def convert_address(platform: str, address: str) -> tuple[str, str | None]:
    """Return (kind of channel, address of a chat there). The address is None if the channel has no such chat."""
    kind = PLATFORMS.get(platform, platform)
    try:
        if kind == "whatsapp":
            phone = _PHONE.fullmatch(address)
            return kind, str(whatsapp.parse_address(phone[1] if phone else address))
        if kind == "signal":
            return kind, str(signal.parse_address(address.removeprefix("uuid:")))
    except ValueError:
        return kind, None
    return kind, address
