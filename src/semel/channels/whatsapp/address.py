"""Addresses of people and groups, and message ids.

    16505551234             a person, by their phone number without + and blanks (Meta's `wa_id`)
    US.13491208655302741918 a person who hides their number, by their business-scoped user id
    group-Y2FwaV9ncm91cD... a group, by its id

A message's id is Meta's own: `wamid.` and base64.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from semel.text.json_types import Json

_PHONE = re.compile(r"[0-9]{5,20}")
_USER_ID = re.compile(r"[A-Z]{2}\.[A-Za-z0-9.]{1,128}")
_GROUP = re.compile(r"group-([A-Za-z0-9+/=_-]{1,110})")
_MESSAGE = re.compile(r"wamid\.[A-Za-z0-9+/=_-]{1,480}")
GROUP_PREFIX = "group-"


@dataclass(frozen=True)
class WhatsAppPlace:
    """A parsed address. `id`: Meta's id of the person or the group."""

    id: str
    is_group: bool = False

    def make_recipient(self) -> Json:
        """Return the fields of a call that name the recipient."""
        if self.is_group:
            return {"recipient_type": "group", "to": self.id}
        return {"recipient_type": "individual", "to" if _PHONE.fullmatch(self.id) else "recipient": self.id}

    def __str__(self) -> str:
        return f"{GROUP_PREFIX}{self.id}" if self.is_group else self.id


def parse_address(address: str) -> WhatsAppPlace:
    """Parse an address. Raises ValueError, whose text says what an address looks like."""
    if (group := _GROUP.fullmatch(address)) is not None:
        return WhatsAppPlace(group[1], is_group=True)
    if _PHONE.fullmatch(address) or _USER_ID.fullmatch(address):
        return WhatsAppPlace(address)
    raise ValueError(
        f"{address!r} is not a WhatsApp address; write a phone number with its country code, in digits only, such as "
        "16505551234"
    )


def check_message_id(id: str) -> str:
    """Return the id of a message. Raises ValueError if it is none."""
    if not _MESSAGE.fullmatch(id):
        raise ValueError(f"{id!r} is not the id of a WhatsApp message")
    return id
