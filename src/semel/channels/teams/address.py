"""Addresses of conversations, and message ids.

    @7faf8ab2-3d56-4244-b585-20c8a42ed2b8       the personal chat with a person
    19:ID@thread.v2                             a group chat
    19:ID@thread.tacv2;messageid=1481567603816  a thread of a team's channel
    19:ID@thread.tacv2                          a team's channel: a message begins a thread

Teams' own id of a personal chat is longer than an address may be, and a person has one such chat with a bot. Teams
counts messages in each conversation for itself, so a message's id here is ADDRESS/ID.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PERSON = re.compile(r"@([0-9A-Za-z:_-]{1,115})")
_OBJECT_ID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_SHARED = re.compile(r"(19:[A-Za-z0-9_.@:-]{1,115})(?:;messageid=([0-9]{1,20}))?")
_MESSAGE = re.compile(r"[A-Za-z0-9:_.=-]{1,200}")
_CHANNEL_END = "@thread.tacv2"


@dataclass(frozen=True)
class TeamsPlace:
    """A parsed address: the personal chat with `person`; else a chat or channel, and the thread in it."""

    person: str = ""
    chat: str = ""
    thread: str = ""

    @property
    def begins_threads(self) -> bool:
        """Whether a message there begins a thread of its own."""
        return self.chat.endswith(_CHANNEL_END) and not self.thread

    def __str__(self) -> str:
        if self.person:
            return f"@{self.person}"
        return f"{self.chat};messageid={self.thread}" if self.thread else self.chat


def parse_address(address: str) -> TeamsPlace:
    """Parse an address. Raises ValueError, whose text says what an address looks like."""
    if (person := _PERSON.fullmatch(address)) is not None:
        if _OBJECT_ID.fullmatch(person[1]) and person[1] != person[1].lower():
            raise ValueError(f"{address!r}: write the object id in small letters, {address.lower()}")
        return TeamsPlace(person=person[1])
    if (shared := _SHARED.fullmatch(address)) is not None:
        return TeamsPlace(chat=shared[1], thread=shared[2] or "")
    raise ValueError(
        f"{address[:80]!r} is not an address of Teams: @ and a person's object id, or the id of a chat or a channel, "
        "like 19:...@thread.v2 or 19:...@thread.tacv2"
    )


def make_message_id(place: TeamsPlace | str, id: str) -> str:
    """Return the id of a message. Raises ValueError if Teams' id of it is none."""
    if not _MESSAGE.fullmatch(id):
        raise ValueError(f"{id[:80]!r} is not the id of a message of Teams")
    return f"{place}/{id}"


def parse_message_id(text: str) -> tuple[TeamsPlace, str]:
    """Return (where a message is, Teams' id of it). Raises ValueError."""
    address, _, id = text.rpartition("/")
    if not _MESSAGE.fullmatch(id):
        raise ValueError(f"{text[:80]!r} is not the id of a message of Teams")
    return parse_address(address), id
